"""Hook calls without pluggy's share, which costs a document as much as its scoring.

Only where it makes no difference: nobody wraps the hook, and nobody listens to pluggy
itself (``--debug``, pytester's recorder). Nor is a listener called that has nothing to
say: pytest's terminal, when it prints no line as a test starts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

__all__ = ["Calls", "calls_of"]

Call = Callable[..., None]


class Calls(NamedTuple):
    """The hooks that tell of a test, with their arguments by position."""

    logstart: Call
    """``(nodeid, location)``"""
    logreport: Call
    """``(report)``"""
    logfinish: Call
    """``(nodeid, location)``"""


def calls_of(config: pytest.Config) -> Calls:
    """Calls of all who implement these hooks now; for a few documents, since a plugin
    may come or go."""
    hook, plain = config.hook, _is_plain(config.pluginmanager)
    place = ("nodeid", "location")
    return Calls(
        _call(hook.pytest_runtest_logstart, place, plain, _silent(config)),
        _call(hook.pytest_runtest_logreport, ("report",), plain),
        _call(hook.pytest_runtest_logfinish, place, plain),
    )


def _call(
    hook: Any, names: tuple[str, ...], plain: bool, silent: object = None
) -> Call:
    impls = hook.get_hookimpls()
    if not plain or any(impl.wrapper or impl.hookwrapper for impl in impls):
        return lambda *values: hook(**dict(zip(names, values, strict=True)))
    calls = [
        _by_position(impl.function, impl.argnames, names)
        for impl in reversed(impls)
        if silent is None or impl.plugin is not silent
    ]

    def call(*values: object) -> None:
        for function in calls:
            function(*values)

    return call


def _by_position(
    function: Call, wanted: tuple[str, ...], names: tuple[str, ...]
) -> Call:
    """The function for all arguments of the hook, where it may want fewer."""
    if wanted == names:
        return function
    places = [names.index(name) for name in wanted]
    return lambda *values: function(*[values[i] for i in places])


def _silent(config: pytest.Config) -> object:
    """pytest's own terminal, if it shows neither path nor name of a test that starts;
    else None."""
    terminal = config.pluginmanager.getplugin("terminalreporter")
    shows = (
        type(terminal) is not pytest.TerminalReporter
        or terminal.showfspath
        or terminal.showlongtestinfo
    )
    return None if shows else terminal


def _is_plain(manager: pytest.PytestPluginManager) -> bool:
    """Whether pluggy runs hooks as it came; it swaps this function for a listener."""
    run = getattr(manager, "_inner_hookexec", None)
    return getattr(run, "__qualname__", "") == "_multicall"
