"""Verdicts of programs in the store of responses, so that scoring again is free.

A verdict is stored like a response: its model is the sandbox with its version and
Python, its prompt the program with its tests. Timeouts depend on the machine's load and
are not stored.
"""

from __future__ import annotations

import json
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

    def find(
        self, level: str, tests: Sequence[tuple[str, str]], timeout: float
    ) -> list[str | None]:
        """Return the stored verdict of each program with its tests."""
        if not self._reads:
            return [None] * len(tests)
        keys = self._keys(tests, timeout)
        found = self._store(level).read([key for key in keys if key is not None])
        texts = (found.get(key) if key is not None else None for key in keys)
        return [one.text if one is not None else None for one in texts]

    def keep(
        self, level: str, test: tuple[str, str], timeout: float, text: str
    ) -> None:
        """Store a verdict."""
        (key,) = self._keys([test], timeout)
        if key is not None and text != "timed out":
            self._store(level).add(key, Response(text=text))

    def close(self) -> None:
        """Write pending verdicts."""
        stores, self._stores = self._stores, {}
        for store in stores.values():
            store.close()

    def _keys(
        self, tests: Sequence[tuple[str, str]], timeout: float
    ) -> list[RequestKey | None]:
        prompts = (json.dumps([*one, timeout]) for one in tests)
        return [*request_keys([Generate(prompt=one) for one in prompts])]

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
