"""Results of documents in another run, shown next to those of the run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pytest_evals.store.document_pairs import RowsByContent
from pytest_evals.store.history import EarlierRun

Row = Mapping[str, Any]
Before = Callable[[Row], dict[str, Any] | None]
"""Returns ``answer``, ``correct``, ``status`` and the known responses of a document in
another run; ``None`` if it does not contain the document. Called once for each document
of a task, in the order of the samples file."""


def no_baseline(row: Row) -> None:
    """No baseline, or a task that is not comparable with it."""
    del row


def paired_run(run: EarlierRun, task: str) -> Before:
    """Find the documents of a task in a stored run.

    Raises:
        StoreError: They cannot be read.
    """
    return RowsByContent((row, _kept(row)) for row in run.rows(task)).take


def _kept(row: Row) -> dict[str, Any]:
    return {
        "answer": str(row.get("answer") or ""),
        "correct": row.get("correct"),
        "status": str(row.get("status", "")),
        "answers": row.get("resps") or [],
    }


def stored_comparison(worse: Iterable[Row], better: Iterable[Row]) -> Before:
    """Find the changes in ``comparison.json``: only documents that flipped between
    correct and wrong. Used if the baseline no longer exists."""
    known = {
        str(one.get("id")): {
            "answer": str(one.get("before", "")),
            "correct": was,
            "status": "scored",
            "answers": [],
        }
        for was, changes in ((True, worse), (False, better))
        for one in changes
    }
    return lambda row: known.get(str(row.get("id")))
