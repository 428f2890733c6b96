"""One document as text: its error, or its answer."""

from __future__ import annotations

from pytest_evals.core.record import Record
from pytest_evals.reports.details.examples import error_of, example_lines
from pytest_evals.reports.escape import one_line
from pytest_evals.scorers.near_misses import type_fault


def document_lines(record: Record) -> list[str]:
    """Yield the error or that the answer is wrong, then prompt, answer and target.

    Summaries show only the first line. An error may have several lines; each is
    escaped.
    """
    lines = [one_line(line) for line in record.error.splitlines()]
    if not lines:
        lines = [error_of(record) or "the answer is wrong"]
    lines += example_lines(record, "  ")
    scores = () if record.error else record.scores[:1]
    for score in scores:
        if score.correct is False and isinstance(score.answer, str):
            fault = type_fault(score.answer, record.doc.target)
            lines += [f"  hint    {fault}"] if fault else []
    return lines
