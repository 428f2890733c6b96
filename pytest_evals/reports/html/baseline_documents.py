"""What documents were in a baseline, to be shown beside what they are now."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Protocol

from pytest_evals.store.document_pairs import identities
from pytest_evals.store.history import EarlierRun

Row = Mapping[str, Any]


class BaselineDocuments(Protocol):
    """Whoever knows what the documents of one task were."""

    def of(self, row: Row) -> dict[str, Any] | None:
        """What a document was: ``answer``, ``correct``, ``status``, and the responses
        if they are known; ``None`` if it was not there.

        Asked once for each document, in the order of the samples file.
        """
        ...


class NoBaseline:
    """There is no baseline, or the task could not be compared with it."""

    def of(self, row: Row) -> dict[str, Any] | None:
        """It was not there."""
        del row
        return None


class PairedRun:
    """By the hash of a document's row, else by prompt, target and choices; equal ones
    by their order."""

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
        """The next such document."""
        for key in identities(row):
            waiting = self._rows.get(key)
            while waiting:
                found = self._left.pop(waiting.popleft(), None)
                if found is not None:
                    return found
        return None


class StoredComparison:
    """What ``comparison.json`` says: only those that were right and are wrong, or the
    reverse. For a baseline that is not there any more."""

    def __init__(self, worse: Iterable[Row], better: Iterable[Row]) -> None:
        """Take the changes of one task."""
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
        """By its id."""
        return self._known.get(str(row.get("id")))


def _kept(row: Row) -> dict[str, Any]:
    return {
        "answer": str(row.get("answer") or ""),
        "correct": row.get("correct"),
        "status": str(row.get("status", "")),
        "answers": row.get("resps") or [],
    }
