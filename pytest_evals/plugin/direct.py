"""Hook calls without pluggy's share, which costs a document as much as its scoring.

Only where it makes no difference: nobody wraps the hook, and nobody listens to pluggy
itself (``--debug``, pytester's recorder).
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
        _call(hook.pytest_runtest_logstart, place, plain),
        _call(hook.pytest_runtest_logreport, ("report",), plain),
        _call(hook.pytest_runtest_logfinish, place, plain),
    )


def _call(hook: Any, names: tuple[str, ...], plain: bool) -> Call:
    impls = hook.get_hookimpls()
    if not plain or any(impl.wrapper or impl.hookwrapper for impl in impls):
        return lambda *values: hook(**dict(zip(names, values, strict=True)))
    calls = [
        (impl.function, [names.index(name) for name in impl.argnames])
        for impl in reversed(impls)
    ]

    def call(*values: object) -> None:
        for function, wanted in calls:
            function(*[values[i] for i in wanted])

    return call


def _is_plain(manager: pytest.PytestPluginManager) -> bool:
    """Whether pluggy runs hooks as it came; it swaps this function for a listener."""
    run = getattr(manager, "_inner_hookexec", None)
    return getattr(run, "__qualname__", "") == "_multicall"
