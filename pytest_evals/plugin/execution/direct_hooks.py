"""Hook calls without pluggy, whose overhead is as large as the scoring of a document.

Only where it makes no difference: nobody wraps the hook, and nobody listens to pluggy
itself (``--debug``, pytester's recorder). Nor is a listener called that has nothing to
say: pytest's terminal, when it prints no line as a test starts, and its logging, when
nothing is logged live. And of documents of which the terminal prints nothing it is not
asked, but they are counted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest

from pytest_evals.plugin.execution.terminal_counts import count_of

Call = Callable[..., None]
_Instead = tuple[object, Call | None]
"""A plugin, and what is called instead of its own function, if anything."""


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
    silent = _silent_logging(config)
    at_start = [*silent, *_silent_terminal(config)]
    at_report = [*silent, *_counting_terminal(config)]
    return Calls(
        _call(hook.pytest_runtest_logstart, place, plain, at_start),
        _call(hook.pytest_runtest_logreport, ("report",), plain, at_report),
        _call(hook.pytest_runtest_logfinish, place, plain, silent),
    )


def log_report_without(config: pytest.Config, plugin: object) -> Call | None:
    """The call ``(report)`` of all who hear of reports but one plugin; ``None`` where
    it cannot be left out."""
    hook = config.hook.pytest_runtest_logreport
    if not _is_plain(config.pluginmanager) or _is_wrapped(hook):
        return None
    return _call(hook, ("report",), True, [(plugin, None), *_silent_logging(config)])


def _call(
    hook: Any, names: tuple[str, ...], plain: bool, instead: Sequence[_Instead]
) -> Call:
    if not plain or _is_wrapped(hook):
        return lambda *values: hook(**dict(zip(names, values, strict=True)))
    calls: list[Call] = []
    for impl in reversed(hook.get_hookimpls()):
        own = _by_position(impl.function, impl.argnames, names)
        other = [call for plugin, call in instead if plugin is impl.plugin]
        calls += [call for call in other or [own] if call is not None]
    if len(calls) == 1:
        return calls[0]

    def call(*values: object) -> None:
        for function in calls:
            function(*values)

    return call


def _is_wrapped(hook: Any) -> bool:
    return any(impl.wrapper or impl.hookwrapper for impl in hook.get_hookimpls())


def _by_position(
    function: Call, wanted: tuple[str, ...], names: tuple[str, ...]
) -> Call:
    """The function for all arguments of the hook, where it may want fewer."""
    if wanted == names:
        return function
    places = [names.index(name) for name in wanted]
    return lambda *values: function(*[values[i] for i in places])


def _silent_terminal(config: pytest.Config) -> list[_Instead]:
    """pytest's own terminal, if it shows neither path nor name of a test that
    starts."""
    terminal = config.pluginmanager.getplugin("terminalreporter")
    shows = (
        type(terminal) is not pytest.TerminalReporter
        or terminal.showfspath
        or terminal.showlongtestinfo
    )
    return [] if shows else [(terminal, None)]


def _counting_terminal(config: pytest.Config) -> list[_Instead]:
    terminal = config.pluginmanager.getplugin("terminalreporter")
    count = count_of(config, terminal)
    return [] if count is None else [(terminal, count)]


def _silent_logging(config: pytest.Config) -> list[_Instead]:
    """pytest's own logging, if nobody watches the log as it is written."""
    plugin = config.pluginmanager.getplugin("logging-plugin")
    live = getattr(plugin, "log_cli_handler", None)
    return [(plugin, None)] if isinstance(live, logging.NullHandler) else []


def _is_plain(manager: pytest.PytestPluginManager) -> bool:
    """Whether pluggy runs hooks as it came; it swaps this function for a listener."""
    run = getattr(manager, "_inner_hookexec", None)
    return getattr(run, "__qualname__", "") == "_multicall"
