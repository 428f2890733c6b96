"""One hash a task over all its documents, prompts and targets: lm-eval's
``task_hashes`` (0.4.13, ``loggers/evaluation_tracker.py``). Two runs with the same hash
were asked the same.
"""

from __future__ import annotations

import hashlib

from pytest_evals.reports.files.samples import Sample

__all__ = ["TaskHashes"]


class TaskHashes:
    """Collects the hashes of documents, in any order."""

    def __init__(self) -> None:
        """Nothing has been seen yet."""
        self._seen: dict[str, dict[int, bytes]] = {}
        self._filters: dict[str, int] = {}

    def add(self, task: str, index: int, sample: Sample) -> None:
        """See a document.

        Args:
            task: Its task.
            index: Its position in the dataset.
            sample: What results files say of it.
        """
        self._seen.setdefault(task, {})[index] = bytes.fromhex(sample.hashes)
        self._filters[task] = len(sample.lines)

    def of(self, task: str) -> dict[int, tuple[str, str, str]]:
        """Position of each document of a task → hashes of its row, its prompt and its
        target, in hexadecimal."""
        return {
            index: (one[:32].hex(), one[32:64].hex(), one[64:].hex())
            for index, one in self._seen.get(task, {}).items()
        }

    def digests(self) -> dict[str, str]:
        """Task → SHA-256 of its documents' hashes in the order of the dataset, once for
        each filter."""
        return {task: self._digest(task) for task in self._seen}

    def _digest(self, task: str) -> str:
        seen = self._seen[task]
        text = "".join([seen[index].hex() for index in sorted(seen)]).encode()
        total = hashlib.sha256()
        for _ in range(self._filters[task]):
            total.update(text)
        return total.hexdigest()
