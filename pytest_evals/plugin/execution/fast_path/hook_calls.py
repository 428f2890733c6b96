"""Calls of the reporting hooks without pluggy, whose overhead equals the cost of
scoring a document.

pluggy still makes the calls if somebody wraps one of these hooks or traces pluggy
(``--debug``, pytester's recorder). Documents for which pytest's terminal prints nothing
are added to its counts directly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest

from pytest_evals.plugin.documents import status_of
from pytest_evals.plugin.settings.process import package_of

Call = Callable[..., None]
Part = tuple[Call, slice]
"""An implementation, and the part of the arguments that it accepts."""
_SHARED_VALUES = pytest.StashKey[dict[tuple[Any, ...], tuple[Any, ...]]]()
"""Values that the kept reports of documents share."""
_Replacement = tuple[object, Call | None]
"""A plugin, and the function to call instead of the hook, if any."""
_OWN = ("_id", "nodeid", "duration", "start", "stop", "item_index")
"""Fields that differ, except for the name in location and keywords. pytest 9.2 has the
first, earlier versions the second."""
_SHARED = (
    *("outcome", "when", "evals_is_document", "evals_word", "evals_record"),
    *("node", "worker_id", "testrun_uid"),
)
_EMPTY = ("longrepr", "sections", "user_properties")
_KEPT = frozenset((*_OWN, *_SHARED, *_EMPTY, "location", "keywords"))
_Known = dict[tuple[Any, ...], tuple[Any, ...]]


class HookCalls(NamedTuple):
    """The implementations of the reporting hooks of a test, with positional
    arguments."""

    logstart: Sequence[Part]  # ``(nodeid, location)``
    logreport: Sequence[Part]  # ``(report)``
    logreport_of_silent: Sequence[Part]
    """``(report)`` of a document that passed without output and properties"""
    logfinish: Sequence[Part]  # ``(nodeid, location)``


def hook_calls(config: pytest.Config, needless: Sequence[object] = ()) -> HookCalls:
    """Return the calls of all current implementations of these hooks.

    Use them for a few documents only, since plugins may be registered at any time.
    ``needless``: plugins that do nothing with the report of a silent document.
    """
    hook, plain = config.hook, _is_plain(config.pluginmanager)
    place = ("nodeid", "location")
    counted = _counting_terminal(config)
    left_out: list[_Replacement] = [(plugin, None) for plugin in needless]
    report = hook.pytest_runtest_logreport, ("report",), plain
    return HookCalls(
        _calls(hook.pytest_runtest_logstart, place, plain, []),
        _calls(*report, counted),
        _calls(*report, [*counted, *left_out]),
        _calls(hook.pytest_runtest_logfinish, place, plain, []),
    )


def logreport_without(config: pytest.Config, plugin: object) -> list[Part] | None:
    """Return the implementations ``(report)`` of all but one plugin; ``None`` if the
    hook is wrapped or traced."""
    hook = config.hook.pytest_runtest_logreport
    if not _is_plain(config.pluginmanager) or _is_wrapped(hook):
        return None
    return _calls(hook, ("report",), True, [(plugin, None)])


def is_foreign(plugin: Any) -> bool:
    """Whether a plugin is neither pytest's nor ours."""
    return package_of(plugin) not in ("_pytest", "pytest_evals")


def _calls(
    hook: Any, names: tuple[str, ...], plain: bool, instead: Sequence[_Replacement]
) -> list[Part]:
    if not plain or _is_wrapped(hook):
        return [(lambda *values: hook(**dict(zip(names, values, strict=True))), _ALL)]
    calls: list[Part] = []
    for impl in reversed(hook.get_hookimpls()):
        replaced = [(call, _ALL) for plugin, call in instead if plugin is impl.plugin]
        found = replaced or [_accepting(impl.function, impl.argnames, names)]
        calls += [(call, part) for call, part in found if call is not None]
    return calls


_ALL = slice(None)


def _accepting(
    function: Call, accepted: tuple[str, ...], names: tuple[str, ...]
) -> Part:
    """Return the function with the part of the arguments that it accepts."""
    places = [names.index(name) for name in accepted]
    if places != sorted(places):
        return (lambda *values: function(*[values[i] for i in places])), _ALL
    return function, slice(places[0], places[-1] + 1) if places else slice(0)


def _is_wrapped(hook: Any) -> bool:
    return any(impl.wrapper or impl.hookwrapper for impl in hook.get_hookimpls())


def _counting_terminal(config: pytest.Config) -> list[_Replacement]:
    """Return pytest's terminal with a shorter way to its counts, unless another plugin
    has its own statuses."""
    terminal = config.pluginmanager.getplugin("terminalreporter")
    if type(terminal) is not pytest.TerminalReporter:
        return []
    impls = config.hook.pytest_report_teststatus.get_hookimpls()
    if any(is_foreign(impl.plugin) for impl in impls):
        return []
    reported = getattr(terminal, "_progress_nodeids_reported", None)
    add = getattr(terminal, "_add_stats", None)
    if not isinstance(reported, set) or add is None:
        return []

    known = config.stash.setdefault(_SHARED_VALUES, {})
    prints = terminal.showlongtestinfo

    def count(report: pytest.TestReport) -> None:
        status = status_of(report)
        if status is None or status[1] or prints:
            terminal.pytest_runtest_logreport(report)
            same = terminal.stats.get(status[0] if status else "", ())
            if same and same[-1] is report:
                same[-1] = kept(report, known)
            return
        add(status[0], (kept(report, known),))
        reported.add(getattr(report, "id", None) or report.nodeid)

    return [(terminal, count)]


def _is_plain(manager: pytest.PytestPluginManager) -> bool:
    """Whether nobody traces pluggy, which replaces this function for that."""
    run = getattr(manager, "_inner_hookexec", None)
    return getattr(run, "__qualname__", "") == "_multicall"


# A report needs four times as much memory as the values in which the reports of
# documents without failure and output differ. All others are shared.
class KeptReport(pytest.TestReport):
    """The report of a document; its fields are those of the complete report."""

    __slots__ = ("_line", "_name", "_shared", "_values")

    def __init__(self, report: pytest.TestReport, known: _Known) -> None:
        """Keep a report without failure, output and properties. ``known``: values
        that several reports share."""
        fields = vars(report)
        path, self._line, self._name = report.location
        names = (*(one for one in _OWN if one in fields),)
        self._values = (*map(fields.__getitem__, names),)
        keywords = (*(one for one in report.keywords if one != self._name),)
        others = (*((one, fields[one]) for one in _SHARED if one in fields),)
        shared = (path, names, keywords, others)
        self._shared = known.setdefault(shared, shared)

    def __getattr__(self, name: str) -> Any:
        """Return a field of the report."""
        path, names, keywords, others = self._shared
        if name in names:
            return self._values[names.index(name)]
        if name == "location":
            return (path, self._line, self._name)
        if name == "keywords":
            return dict.fromkeys((self._name, *keywords), 1)
        if name in _EMPTY:
            return None if name == "longrepr" else []
        for other, value in others:
            if name == other:
                return value
        raise AttributeError(name)


def kept(report: pytest.TestReport, known: _Known) -> pytest.TestReport:
    """Return a small equivalent of a report, or the report itself if it contains
    other values. ``known``: values that several reports share; the mapping changes."""
    fields = vars(report)
    is_plain = type(report) is pytest.TestReport and fields.keys() <= _KEPT
    if not is_plain or any(map(fields.get, _EMPTY)):
        return report
    return KeptReport(report, known)
