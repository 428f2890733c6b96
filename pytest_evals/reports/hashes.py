"""One hash a task over all its documents, prompts and targets: lm-eval's
``task_hashes`` (0.4.13, ``loggers/evaluation_tracker.py``). Two runs with the same hash
were asked the same.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence

__all__ = ["TaskHashes"]

_START = re.compile(r'\{"doc_id":(\d+),')
_HASHES = re.compile(
    r'"doc_hash":"([0-9a-f]{64})","prompt_hash":"([0-9a-f]{64})",'
    r'"target_hash":"([0-9a-f]{64})"'
)


class TaskHashes:
    """Collects the hashes of documents, in any order."""

    def __init__(self) -> None:
        """Nothing has been seen yet."""
        self._seen: dict[str, dict[int, bytes]] = {}
        self._filters: dict[str, int] = {}

    def add(self, task: str, lines: Sequence[str]) -> None:
        """See a document.

        Args:
            task: Its task.
            lines: Its rows as :func:`~pytest_evals.reports.samples.sample_lines` gives
                them, one a filter.
        """
        index, hashes = _read(lines[0])
        self._seen.setdefault(task, {})[index] = bytes.fromhex(hashes)
        self._filters[task] = len(lines)

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


def _read(line: str) -> tuple[int, str]:
    """Position and hashes of a row. A dataset may have columns of the same names, which
    come before; a row that looks otherwise is parsed."""
    start = _START.match(line)
    found = _HASHES.match(line, line.rfind('"doc_hash":"'))
    if start and found:
        return int(start.group(1)), "".join(found.groups())
    row = json.loads(line)
    return row["doc_id"], row["doc_hash"] + row["prompt_hash"] + row["target_hash"]
