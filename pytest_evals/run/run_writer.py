"""The folder of this run: samples as documents finish, results at the end.

A disk that is full or read-only must not lose the run: the first fault is kept for the
report, and the numbers stay in memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_evals.errors import StoreError
from pytest_evals.reports.files.hashes import TaskHashes
from pytest_evals.reports.files.samples import Sample
from pytest_evals.store.folder import RunFolder, write_json

__all__ = ["Samples"]

BATCH = 256
"""Documents that are written together; a crash loses at most these."""


class Samples:
    """Writes what a run finds, batch by batch."""

    def __init__(self, folder: Path, model: str, started: float) -> None:
        """Nothing is on disk until there is something to write."""
        self._folder = RunFolder(folder, model, started)
        self._pending: dict[str, list[str]] = {}
        self._n = 0
        self.hashes = TaskHashes()
        self.error = ""
        """The first fault of the disk; then nothing more is written."""

    @property
    def path(self) -> Path | None:
        """The folder, once it exists."""
        return self._folder.path

    @property
    def files(self) -> dict[str, str]:
        """Task → name of its file in the folder."""
        return self._folder.files

    def add(self, task: str, index: int, sample: Sample) -> None:
        """Take what files say of a finished document."""
        self.hashes.add(task, index, sample)
        if self.error:
            return
        self._pending.setdefault(task, []).extend(sample.lines)
        self._n += 1
        if self._n >= BATCH:
            self.flush()

    def flush(self) -> None:
        """Write what is pending."""
        pending, self._pending, self._n = self._pending, {}, 0
        for name, lines in pending.items():
            self._write(
                lambda name=name, lines=lines: self._folder.append_samples(name, lines)
            )

    def sort(self) -> None:
        """Bring documents that workers have sent into the order of the dataset."""
        self.flush()
        self._write(self._folder.sort_samples)

    def results(self, results: Mapping[str, Any], copy: Path | None) -> None:
        """Write ``results.json``, and a copy where the user wants one."""
        self.flush()
        self._write(lambda: self._folder.write_results(results))
        if copy is not None:
            self.error = ""
            self._write(lambda: write_json(copy, results))

    def _write(self, action: Any) -> None:
        if self.error:
            return
        try:
            action()
        except StoreError as error:
            self.error = str(error)
