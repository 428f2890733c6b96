"""Baseline results of documents, shown next to those of the run."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Protocol

from pytest_evals.store.document_pairs import identities
from pytest_evals.store.history import EarlierRun

Row = Mapping[str, Any]


class BaselineDocuments(Protocol):
    """Baseline results of the documents of one task."""

    def of(self, row: Row) -> dict[str, Any] | None:
        """Return ``answer``, ``correct``, ``status`` and the known responses of a
        document in the baseline; ``None`` if the baseline does not contain it.

        Called once for each document, in the order of the samples file.
        """
        ...


class NoBaseline:
    """No baseline, or a task that is not comparable with it."""

    def of(self, row: Row) -> dict[str, Any] | None:
        """Return ``None``."""
        del row
        return None


class PairedRun:
    """Documents of a stored run, paired by the hash of their row, else by prompt,
    target and choices; equal ones in order."""

    def __init__(self, run: EarlierRun, task: str) -> None:
        """Read the task's documents in the baseline.

        Raises:
            StoreError: They cannot be read.
        """
        self._rows: dict[Hashable, deque[int]] = defaultdict(deque)
        self._left: dict[int, dict[str, Any]] = {}
        for number, row in enumerate(run.rows(task)):
            self._left[number] = _kept(row)
            for key in identities(row):
                self._rows[key].append(number)

    def of(self, row: Row) -> dict[str, Any] | None:
        """Return the next matching document."""
        for key in identities(row):
            waiting = self._rows.get(key)
            while waiting:
                found = self._left.pop(waiting.popleft(), None)
                if found is not None:
                    return found
        return None


class StoredComparison:
    """Changes in ``comparison.json``: only documents that flipped between correct and
    wrong. Used if the baseline no longer exists."""

    def __init__(self, worse: Iterable[Row], better: Iterable[Row]) -> None:
        self._known = {
            str(one.get("id")): {
                "answer": str(one.get("before", "")),
                "correct": was,
                "status": "scored",
                "answers": [],
            }
            for was, changes in ((True, worse), (False, better))
            for one in changes
        }

    def of(self, row: Row) -> dict[str, Any] | None:
        """Return the change of the document with this id."""
        return self._known.get(str(row.get("id")))


def _kept(row: Row) -> dict[str, Any]:
    return {
        "answer": str(row.get("answer") or ""),
        "correct": row.get("correct"),
        "status": str(row.get("status", "")),
        "answers": row.get("resps") or [],
    }
