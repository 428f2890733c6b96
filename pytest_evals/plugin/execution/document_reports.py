"""Reports of documents, made without pytest's three-phase protocol.

A document in the middle of a file has nothing to set up or tear down: one report says
all. The first and the last document of a file go through pytest's own protocol, so that
fixtures and other plugins' hooks work.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import pytest

from pytest_evals.plugin.nodes import DocItem, GateItem

Status = tuple[str, str, str | tuple[str, dict[str, bool]]]

_DOCUMENTS: dict[str, Status] = {
    "correct": ("passed", "", "PASSED"),
    "scored": ("passed", "", "PASSED"),
    "wrong": ("wrong", "", ("WRONG", {"yellow": True})),
    "regressed": ("regressed", "", ("REGRESSED", {"red": True})),
    "error": ("error", "E", ("ERROR", {"red": True})),
    "unscored": ("error", "E", ("ERROR", {"red": True})),
    "stopped": ("stopped", "", ("STOPPED", {"yellow": True})),
    "skipped": ("skipped", "", ("SKIPPED", {"yellow": True})),
    "invalid": ("failed", "F", ("INVALID", {"red": True})),
    "inconclusive": ("inconclusive", "", ("INCONCLUSIVE", {"yellow": True})),
}
"""Word → category, letter and word. An empty letter with a word prints nothing for
thousands of documents, and still counts for pytest's percentage."""


_RED = ("error", "unscored", "invalid")
"""Words that say of themselves that something failed."""


_OUTCOMES = ("passed", "failed", "skipped")
"""pytest's own; pytest-rerunfailures has one for a failure that does not count."""


def status_of(report: pytest.TestReport) -> Status | None:
    """How a report of ours is counted and shown; ``None`` for all others."""
    word = getattr(report, "evals_word", None)
    if word is None or report.when != "call" or hasattr(report, "wasxfail"):
        return None
    if report.outcome not in _OUTCOMES:
        return None
    if report.outcome == "failed" and word not in _RED:
        return None
    return _DOCUMENTS.get("skipped" if word == "" and report.skipped else word)


def report_of(
    item: DocItem,
    excinfo: pytest.ExceptionInfo[BaseException] | None,
    start: float,
    stop: float,
) -> pytest.TestReport:
    """The one report of a document.

    Args:
        item: The document.
        excinfo: What its run raised.
        start: When it began, in seconds of the system's clock.
        stop: When it ended.
    """
    outcome: Literal["passed", "failed", "skipped"] = "passed"
    longrepr: Any = None
    if excinfo is not None:
        error = excinfo.value
        if isinstance(error, pytest.skip.Exception):
            outcome = "skipped"
            longrepr = ("", 0, f"Skipped: {error.msg}")
        else:
            outcome = "failed"
            longrepr = item.repr_failure(excinfo)
    report = pytest.TestReport(
        nodeid=getattr(item, "id", None) or item.nodeid,  # pytest 9.2 has it parsed
        location=item.location,
        keywords=item.parent.report_keywords,
        outcome=outcome,
        longrepr=longrepr,
        when="call",
        duration=item.took_s,
        start=start,
        stop=stop,
        user_properties=item.user_properties,
    )
    mark(report, item)
    return report


def call_of(
    excinfo: pytest.ExceptionInfo[BaseException], report: pytest.TestReport
) -> pytest.CallInfo[None]:
    """The call of a document that raised, for those whom pytest tells of it."""
    return pytest.CallInfo(
        result=None,
        excinfo=excinfo,
        start=report.start,
        stop=report.stop,
        duration=report.duration,
        when="call",
        _ispytest=True,
    )


def teardown_of(report: pytest.TestReport) -> pytest.TestReport:
    """The report of a teardown that did not take place, for report plugins which write
    a test only then (JUnit, HTML)."""
    teardown = pytest.TestReport(
        nodeid=getattr(report, "id", None) or report.nodeid,
        location=report.location,
        keywords=report.keywords,
        outcome="passed",
        longrepr=None,
        when="teardown",
        start=report.stop,
        stop=report.stop,
        user_properties=report.user_properties,
    )
    vars(teardown)["evals_is_document"] = True
    return teardown


def mark(report: pytest.TestReport, item: pytest.Item) -> None:
    """Tell a report what became of our item; a skipped one points at the task file and
    not at our code."""
    if not isinstance(item, _OURS):
        return
    if isinstance(report.longrepr, tuple):
        path, line, _ = item.reportinfo()
        report.longrepr = (str(path), line or 0, report.longrepr[2])
    fields = vars(report)
    if report.when == "call":
        fields["evals_word"] = item.word
    if isinstance(item, DocItem):
        fields["evals_is_document"] = True
        if report.when == "call":
            report.duration = item.took_s
            if item.packed is not None:
                fields["evals_record"] = item.packed
            if item.shown:
                fields["evals_shown"] = item.shown


_OURS = (DocItem, GateItem)  # a union would be made anew for each document


@contextmanager
def path_shown(terminal: Any) -> Iterator[None]:
    """The first document has shown the path of the file; to look whether it must be
    shown again would cost each document a tenth of the plugin's time."""
    shows = terminal is not None and terminal.showfspath
    if shows:
        terminal.showfspath = False
    try:
        yield
    finally:
        if shows:
            terminal.showfspath = True
