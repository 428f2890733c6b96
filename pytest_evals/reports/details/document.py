"""One document as text: why it has no score, or how it was answered."""

from __future__ import annotations

from pytest_evals.core.record import Record
from pytest_evals.reports.details.examples import error_of, example_lines
from pytest_evals.reports.escape import one_line


def document_lines(record: Record) -> list[str]:
    """The error, or that the answer is wrong, then prompt, answer and target.

    The first line stands alone in a summary. An error may have several lines; each is
    made safe to show.
    """
    lines = [one_line(line) for line in record.error.splitlines()]
    if not lines:
        lines = [error_of(record) or "the answer is wrong"]
    return lines + example_lines(record, "  ")
