"""Verdicts of programs in the store of responses, so that scoring again is free.

A verdict is stored like a response: its model is the sandbox with its version and
Python, its prompt the program with its tests, or with its input.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Sequence
from pathlib import Path

from pytest_evals.core.key import RequestKey, request_keys
from pytest_evals.core.request import Generate, Response
from pytest_evals.sandbox.levels import VERSION
from pytest_evals.store.responses import Responses


class StoredVerdicts:
    """The stored verdicts of a folder. No file is created before the first verdict.

    Args:
        reads: Whether stored verdicts are used.
    """

    def __init__(self, folder: Path, *, reads: bool) -> None:
        self._folder, self._reads = folder, reads
        self._stores: dict[str, Responses] = {}

    def find(self, level: str, jobs: Sequence[str]) -> list[str | None]:
        """Return the stored verdict of each program with its tests."""
        if not self._reads:
            return [None] * len(jobs)
        keys = _keys(jobs)
        found = self._store(level).read([key for key in keys if key is not None])
        texts = (found.get(key) if key is not None else None for key in keys)
        return [one.text if one is not None else None for one in texts]

    def keep(self, level: str, job: str, text: str) -> None:
        """Store a verdict."""
        (key,) = _keys([job])
        if key is not None:
            self._store(level).add(key, Response(text=text))

    def close(self) -> None:
        """Write pending verdicts."""
        stores, self._stores = self._stores, {}
        for store in stores.values():
            store.close()

    def _store(self, level: str) -> Responses:
        if level not in self._stores:
            fingerprint = {
                "model": f"sandbox:{level}",
                "sandbox": VERSION,
                "python": sys.version,
                "machine": platform.machine(),
            }
            self._stores[level] = Responses(self._folder, fingerprint)
        return self._stores[level]


def _keys(jobs: Sequence[str]) -> list[RequestKey | None]:
    return [*request_keys([Generate(prompt=one) for one in jobs])]
