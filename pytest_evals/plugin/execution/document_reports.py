"""Status of documents and gates in reports: words, categories and colours."""

from __future__ import annotations

import pytest

from pytest_evals.plugin.nodes import DocItem, GateItem

Status = tuple[str, str, str | tuple[str, dict[str, bool]]]

_STATUSES: dict[str, Status] = {
    "correct": ("passed", "", "PASSED"),
    "scored": ("passed", "", "PASSED"),
    "wrong": ("wrong", "", ("WRONG", {"yellow": True})),
    "regressed": ("regressed", "", ("REGRESSED", {"red": True})),
    "error": ("error", "E", ("ERROR", {"red": True})),
    "unscored": ("error", "E", ("ERROR", {"red": True})),
    "unsent": ("not scored", "", ("NOT SCORED", {"yellow": True})),
    "stopped": ("stopped", "", ("STOPPED", {"yellow": True})),
    "skipped": ("skipped", "", ("SKIPPED", {"yellow": True})),
    "invalid": ("failed", "F", ("INVALID", {"red": True})),
    "advisory": ("advisory", "a", ("ADVISORY", {"yellow": True})),
    "inconclusive": ("inconclusive", "?", ("INCONCLUSIVE", {"yellow": True})),
}
"""Word → category, letter and word. An empty letter with a word prints nothing for
thousands of documents, and still counts for pytest's percentage."""

_FAILURES = ("error", "unscored", "invalid")
"""Words of failed reports; any other failed report keeps pytest's status."""

_OUTCOMES = ("passed", "failed", "skipped")
"""pytest's own; pytest-rerunfailures adds one for a failure that does not count."""

_OURS = (DocItem, GateItem)  # `DocItem | GateItem` would be built for each document


def status_of(report: pytest.TestReport) -> Status | None:
    """Return category, letter and word of a report of ours; ``None`` for any other."""
    word = getattr(report, "evals_word", None)
    if word is None or report.when != "call" or hasattr(report, "wasxfail"):
        return None
    if report.outcome not in _OUTCOMES:
        return None
    if report.outcome == "failed" and word not in _FAILURES:
        return None
    return _STATUSES.get("skipped" if word == "" and report.skipped else word)


def mark(report: pytest.TestReport, item: pytest.Item) -> None:
    """Add the result of a document or gate to its report. A skipped one points at the
    task file instead of our code."""
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
            if item.word == "unsent":
                fields["evals_unsent"] = item.job.task.name
            if item.shown:
                fields["evals_shown"] = item.shown
