"""Score answered documents."""

from __future__ import annotations

from dataclasses import replace

from pytest_evals.core.record import Record
from pytest_evals.core.row import WatchedRow
from pytest_evals.core.score import Score
from pytest_evals.core.task import Task
from pytest_evals.errors import DocumentError


def score(record: Record, task: Task) -> Record:
    """Return the record with its scores, or with the reason why it has none."""
    if record.error:
        return record
    found = _scored(record, task)
    if isinstance(record.doc.row, WatchedRow):
        record.doc.row.end_of_scoring()
    return found


def _scored(record: Record, task: Task) -> Record:
    scores: tuple[Score, ...] = ()
    error = ""
    try:
        scores = tuple(task.score(record))
    except DocumentError as problem:
        error = str(problem)
    scored = Record(
        task=record.task,
        index=record.index,
        doc=record.doc,
        requests=record.requests,
        responses=record.responses,
        exchanges=record.exchanges,
        scores=scores,
        error=error,
    )
    if task.exclude is None or error:
        return scored
    try:
        return replace(scored, excluded=task.exclude(scored))
    except DocumentError as problem:
        return replace(scored, error=str(problem))
