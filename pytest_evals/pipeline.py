"""The way of a document: ask, answer, score.

The first two are those of :mod:`pytest_evals.plan` and :mod:`pytest_evals.answering`.
Nothing here knows a dialect, a kind of model or a report.
"""

from __future__ import annotations

from dataclasses import replace

from pytest_evals.answering import answer
from pytest_evals.core.record import Record
from pytest_evals.core.row import WatchedRow
from pytest_evals.core.score import Score
from pytest_evals.core.task import Task
from pytest_evals.errors import DocumentError
from pytest_evals.plan import Job, Plan, ask, looked, unsendable

__all__ = ["Job", "Plan", "answer", "ask", "looked", "score", "unsendable"]


def score(record: Record, task: Task) -> Record:
    """The record with its scores; or why it has none."""
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
        turns=record.turns,
        scores=scores,
        error=error,
    )
    if task.exclude is None or error:
        return scored
    try:
        return replace(scored, excluded=task.exclude(scored))
    except DocumentError as problem:
        return replace(scored, error=str(problem))
