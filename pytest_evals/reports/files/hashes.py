"""One hash a task over all its documents, prompts and targets: lm-eval's
``task_hashes`` (0.4.13, ``loggers/evaluation_tracker.py``). Two runs with the same hash
were asked the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from pytest_evals.reports.files.samples import HASHES, Sample

_BYTES = 32
"""Of each of lm-eval's hashes."""


class TaskHashes:
    """Collects the hashes of documents, in any order."""

    def __init__(self) -> None:
        """Nothing has been seen yet."""
        self._seen: dict[str, dict[int, bytes]] = {}
        self._filters: dict[str, int] = {}
        self._reads: dict[str, set[str]] = {}

    def add(self, task: str, index: int, sample: Sample) -> None:
        """See a document.

        Args:
            task: Its task.
            index: Its position in the dataset.
            sample: What results files say of it.
        """
        self._seen.setdefault(task, {})[index] = bytes.fromhex(sample.hashes)
        self._filters[task] = len(sample.lines)
        if sample.reads is not None:
            self._reads.setdefault(task, set()).update(sample.reads)

    def of(self, task: str) -> dict[int, dict[str, str]]:
        """Position of each document of a task → its hashes by their names."""
        return {
            index: dict(zip(HASHES, _parts(one), strict=True))
            for index, one in self._seen.get(task, {}).items()
        }

    def reads(self, task: str) -> tuple[str, ...] | None:
        """Fields of rows that the scoring of a task has read so far; ``None`` if it got
        no row."""
        found = self._reads.get(task)
        return None if found is None else tuple(sorted(found))

    def digests(self) -> dict[str, str]:
        """Task → SHA-256 of its documents' hashes in the order of the dataset, once for
        each filter."""
        return {task: self._digest(task) for task in self._seen}

    def _digest(self, task: str) -> str:
        seen = self._seen[task]
        text = "".join([seen[i][: 3 * _BYTES].hex() for i in sorted(seen)]).encode()
        total = hashlib.sha256()
        for _ in range(self._filters[task]):
            total.update(text)
        return total.hexdigest()


def _parts(hashes: bytes) -> Iterator[str]:
    """Each hash of a document in hexadecimal."""
    for start in range(0, 3 * _BYTES, _BYTES):
        yield hashes[start : start + _BYTES].hex()
    yield hashes[3 * _BYTES :].hex()
