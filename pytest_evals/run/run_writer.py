"""The folder of a run: samples while documents finish, ``results.json`` whenever a task
ends and at the end of the run.

``task_hashes`` are lm-eval's (0.4.13, ``loggers/evaluation_tracker.py``): one hash for
each task over its documents, prompts and targets. Runs with equal hashes had equal
prompts.

A disk that is full or read-only must not lose the run: the first error is kept for the
report, and the results stay in memory.
"""

from __future__ import annotations

import hashlib
import time
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pytest_evals.core.result import RunResult
from pytest_evals.errors import StoreError
from pytest_evals.models.serve.kind import log_of
from pytest_evals.reports.files.environment import environment
from pytest_evals.reports.files.jsonfile import results_json
from pytest_evals.reports.files.samples import HASHES, SHORT, Sample
from pytest_evals.store.files import write_json
from pytest_evals.store.folder import RunFolder
from pytest_evals.store.parts import RECORDS

BATCH = 256  # documents that are written together; a crash loses at most these
SHARE = 0.05
"""Maximum fraction of the time for writing results that will be written again."""


class RunWriter:
    """Writes the files of a run, batch by batch."""

    def __init__(
        self,
        folder: Path,
        model: str,
        started: float,
        *,
        writes: bool = True,
        place: Path | None = None,
    ) -> None:
        """Create a writer, which creates no file until there is data.

        Args:
            started: Unix time at which the run started.
            writes: Whether documents are written; otherwise only their hashes are kept.
            place: The folder of the files, instead of a new one in ``folder``.
        """
        self._folder = RunFolder(folder, model, started, place)
        self._writes = writes
        self._pending: dict[str, list[str]] = {}
        self._records: list[str] = []
        self._n = 0
        self._replaced: dict[str, dict[int, int]] = {}
        self._not_before = 0.0
        self._results: dict[str, Any] = {}
        self.hashes = TaskHashes()
        self.error = ""  # the first error of the disk; nothing is written after it

    @property
    def path(self) -> Path | None:
        """The folder, once it exists."""
        return self._folder.path

    @property
    def has_replaced(self) -> bool:
        """Whether a sample was replaced; sorting removes the earlier one."""
        return bool(self._replaced)

    @property
    def files(self) -> dict[str, str]:
        """Task → name of its file in the folder."""
        return self._folder.files

    def add(
        self, task: str, index: int, sample: Sample, *, replaces: bool = False
    ) -> None:
        """Write the sample of a finished document with the next batch."""
        if replaces:
            self._replaced.setdefault(task, {})[index] = len(sample.lines)
        self.hashes.add(task, index, sample)
        if self.error or not self._writes:
            return
        self._pending.setdefault(task, []).extend(sample.lines)
        self._n += 1
        if self._n >= BATCH:
            self.flush()

    def add_record(self, line: str) -> None:
        """Write a record of a part of a run with the next batch."""
        self._records.append(line)

    def flush(self) -> None:
        """Write pending samples and records."""
        records, self._records = self._records, []
        if records:
            self._write(lambda: self._folder.append(RECORDS, records))
        pending, self._pending, self._n = self._pending, {}, 0
        for name, lines in pending.items():
            self._write(
                lambda name=name, lines=lines: self._folder.append_samples(name, lines)
            )

    def sort(self) -> None:
        """Sort samples by position in the dataset."""
        self.flush()
        self._write(lambda: self._folder.sort_samples(self._replaced))

    def partial_results(self, result: Callable[[], RunResult]) -> None:
        """Write the results of tasks that have ended, so that a killed run keeps
        them; skipped if it was done a short time ago."""
        self.flush()
        start = time.monotonic()
        if start < self._not_before:
            return
        self.results(result())
        took_s = time.monotonic() - start
        self._not_before = time.monotonic() + took_s / SHARE

    def results(
        self,
        result: RunResult,
        *,
        exit_code: int | None = None,
        node_ids: Mapping[str, str] | None = None,
    ) -> None:
        """Write ``results.json``."""
        self._results = results_json(
            result,
            environment=environment(),
            task_hashes=self.hashes.digests(),
            sample_files=self.files,
            node_ids=node_ids,
            exit_code=exit_code,
        )
        self.flush()
        self._write(lambda: self._folder.write("results.json", self._results))
        infos = (result.model_info, *result.judges.values())
        for number, path in enumerate(filter(None, map(log_of, infos)), start=1):
            self._add_log(path, number)

    def _add_log(self, path: Path, number: int) -> None:
        """Copy the log of a server that was started for the run."""
        name = "server.log" if number == 1 else f"server-{number}.log"
        with suppress(OSError):  # the system cleans its temporary files
            content = path.read_bytes()
            self._write(lambda: self._folder.write_file(name, content))

    def add_file(self, name: str, data: Mapping[str, Any]) -> None:
        """Write another JSON file."""
        self._write(lambda: self._folder.write(name, data))

    def add_comparison(self, found: Mapping[str, Any]) -> None:
        """Add the changes since a baseline to ``results.json``. Raises ``StoreError``
        if it cannot be written."""
        self._results["comparison"] = dict(found)
        self._folder.write("results.json", self._results)

    def copy(self, path: Path) -> None:
        """Write a copy of ``results.json``, even if the folder cannot be written."""
        self.error = ""
        self._write(lambda: write_json(path, self._results))

    def _write(self, action: Any) -> None:
        if self.error:
            return
        try:
            action()
        except StoreError as error:
            self.error = str(error)


_BYTES = 32  # number of bytes of lm-eval's hashes
_ALL_BYTES = 3 * _BYTES + SHORT // 2
"""Number of bytes of the hashes of a document."""


class _HashTable:
    """The hashes of a task's documents: two arrays, because objects would need twice as
    much memory."""

    def __init__(self) -> None:
        self._indices = array("q")
        self._hashes = bytearray()

    def add(self, index: int, hashes: bytes) -> None:
        """Add a document; if it is added again, its last hashes count."""
        self._indices.append(index)
        self._hashes += hashes

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        """Yield the position in the dataset and the hashes of each document, in the
        order of the dataset."""
        places = {index: place for place, index in enumerate(self._indices)}
        for index in sorted(places):
            start = places[index] * _ALL_BYTES
            yield index, bytes(self._hashes[start : start + _ALL_BYTES])


class TaskHashes:
    """Collects the hashes of documents, in any order."""

    def __init__(self) -> None:
        self._seen = defaultdict[str, _HashTable](_HashTable)
        self._filters: dict[str, int] = {}
        self._reads: dict[str, set[str]] = {}

    def add(self, task: str, index: int, sample: Sample) -> None:
        """Add a document."""
        self._seen[task].add(index, bytes.fromhex(sample.hashes))
        self._filters[task] = len(sample.lines)
        if sample.reads is not None:
            self._reads.setdefault(task, set()).update(sample.reads)

    def of(self, task: str) -> dict[int, dict[str, str]]:
        """Position of each document of a task → its hashes by their names."""
        return {
            index: dict(zip(HASHES, _parts(one), strict=True))
            for index, one in self._seen.get(task, ())
        }

    def reads(self, task: str) -> tuple[str, ...] | None:
        """Fields of rows that scoring has read so far; ``None`` if it got no row."""
        fields = self._reads.get(task)
        return None if fields is None else tuple(sorted(fields))

    def digests(self) -> dict[str, str]:
        """Task → SHA-256 of its documents' hashes in the order of the dataset, once for
        each filter."""
        found = {}
        for task, table in self._seen.items():
            total = hashlib.sha256()
            for _ in range(self._filters[task]):
                for _, hashes in table:
                    total.update(hashes[: 3 * _BYTES].hex().encode())
            found[task] = total.hexdigest()
        return found


def _parts(hashes: bytes) -> Iterator[str]:
    """Each hash of a document in hexadecimal."""
    for start in range(0, 3 * _BYTES, _BYTES):
        yield hashes[start : start + _BYTES].hex()
    yield hashes[3 * _BYTES :].hex()
