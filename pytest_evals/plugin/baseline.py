"""The baseline of a session: which of its documents were right."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_evals.reports.samples import sample_of
from pytest_evals.store.history import EarlierRun

if TYPE_CHECKING:
    from pytest_evals.core.record import Record
    from pytest_evals.core.task import Task

__all__ = ["Baseline"]

HASH_CHARACTERS = 64
"""Of a document's hashes, the first is that of its content."""


class Baseline:
    """What documents were in a baseline."""

    def __init__(self, run: EarlierRun) -> None:
        """Nothing is read yet."""
        self.run = run
        self._right: dict[str, dict[str, bool]] = {}

    def word(self, record: Record, task: Task) -> str:
        """What a document that is wrong now is called."""
        key = sample_of(record, task).hashes[:HASH_CHARACTERS]
        return "regressed" if self.was_right(task.name, key) else "wrong"

    def was_right(self, task: str, content: str) -> bool:
        """Whether a document was answered right; of equal ones, whether all were.

        Args:
            task: Name of its task.
            content: Hash of its row.
        """
        if task not in self._right:
            found: dict[str, bool] = {}
            for row in self.run.rows(task):
                key, right = str(row.get("doc_hash")), row.get("correct") is True
                found[key] = found.get(key, True) and right
            self._right[task] = found
        return self._right[task].get(content, False)
