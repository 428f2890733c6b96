"""Caches in the folder ``cache`` of the results folder: JSON files, hashes of large
files, and encoded requests. A file that is missing, damaged or of another version is
rebuilt.

A hash is reused while the file's size, inode and both timestamps are unchanged; a
program cannot set back the time of the last status change. Hashes of recently changed
files are not cached, because the clock of a file system may not distinguish two changes
in quick succession.

Models write and read encoded requests, in ``cache/encoded``; each file may be deleted
at any time, also by another run. That folder has a maximum size: the files that were
not used for the longest time are deleted.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from pytest_evals.errors import StoreError
from pytest_evals.store.files import (
    make_base,
    make_folder,
    read_json,
    replace_bytes,
    replace_text,
)
from pytest_evals.store.schema import SCHEMAS, Kind, schema_fault

HASHES = "hashes.json"
SETTLED_S = 5.0  # Seconds after which a change is visible in the timestamps
FOLDER = "cache/encoded"
MOST_BYTES = 2**28
"""Maximum size of all files; 14,042 documents with 5 examples take about 10 MB."""
UNUSED_S = 30 * 86_400  # Seconds without a use after which a file is deleted


def read_cache(base: Path, name: str, kind: Kind) -> dict[str, Any]:
    """Return the JSON object in a file; empty if it cannot be read."""
    path = base / "cache" / name
    found = read_json(path)
    return {} if schema_fault(kind, found.pop("schema_version", None), path) else found


def write_cache(base: Path, name: str, kind: Kind, data: Mapping[str, Any]) -> None:
    """Write a JSON object atomically; ``StoreError`` if it cannot be written."""
    make_base(base)
    make_folder(base / "cache", "--evals-dir")
    versioned = {"schema_version": SCHEMAS[kind].current, **data}
    replace_text(base / "cache" / name, json.dumps(versioned), "--evals-dir")


def file_hash(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal; ``OSError`` if it is unreadable."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


class FileHashes:
    """A function that returns the SHA-256 of files."""

    def __init__(self, base: Path, *, writes: bool = True) -> None:
        """Read the cached hashes."""
        self._base, self._writes = base, writes
        self._known: dict[str, object] = read_cache(base, HASHES, "hashes")

    def __call__(self, path: Path) -> str:
        """Return the hash of a file's content; ``OSError`` if it cannot be read."""
        name = str(path.resolve())
        mark = _mark(path)
        match self._known.get(name):
            case [list() as known, str() as digest] if known == mark:
                return digest
        digest = file_hash(path)
        *_, changed, status_changed = after = _mark(path)
        age_s = time.time() - max(changed, status_changed) / 1e9
        if mark == after and age_s > SETTLED_S:
            self._remember({name: [mark, digest]})
        return digest

    def _remember(self, fresh: Mapping[str, object]) -> None:
        """Cache a hash, next to those that other processes have written meanwhile."""
        others = read_cache(self._base, HASHES, "hashes")
        self._known = {**others, **self._known, **fresh}
        if self._writes:
            with suppress(StoreError):  # it only saves time
                write_cache(self._base, HASHES, "hashes", self._known)


def _mark(path: Path) -> list[int]:
    stat = path.stat()
    return [stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns]


class EncodedFile(NamedTuple):
    """A file of the folder."""

    used: float  # Unix time of its last use
    size: int
    path: Path


class EncodedFiles:
    """The files of a results folder."""

    def __init__(self, base: Path, *, reads: bool = True) -> None:
        """Creates no folder."""
        self._base, self._folder = base, base / FOLDER
        self._reads, self._writes = reads, True
        self._n_free = 0  # Bytes that may be written until old files are deleted

    def read(self, name: str, /) -> bytes | None:
        """Return the content of a file, and note its use; ``None`` if unreadable."""
        if not self._reads:
            return None
        path = self._folder / name
        try:
            data = path.read_bytes()
            os.utime(path)
        except OSError:
            return None
        return data

    def write(self, name: str, data: bytes, /) -> None:
        """Write a file; after a failure, none is written any more."""
        if not self._writes:
            return
        try:
            if self._n_free < len(data):
                make_base(self._base)
                make_folder(self._folder, "--evals-dir")
                self._n_free = MOST_BYTES // 8
                prune(self._base, MOST_BYTES - self._n_free)
            self._n_free -= len(data)
            replace_bytes(self._folder / name, [data], "--evals-dir")
        except StoreError:
            self._writes = False


def encoded_files(base: Path) -> list[EncodedFile]:
    """Return the files of a results folder, the least recently used first."""
    return sorted(_found(base / FOLDER))


def _found(folder: Path) -> Iterator[EncodedFile]:
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):
                stat = entry.stat(follow_symlinks=False)
                yield EncodedFile(stat.st_mtime, stat.st_size, Path(entry.path))


def prune(base: Path, most_bytes: float, unused_s: float = UNUSED_S) -> None:
    """Delete files that were not used for some time, and the least recently used ones
    until the others have a maximum size."""
    files = encoded_files(base)
    total, now = sum(one.size for one in files), time.time()
    for one in files:
        if total <= most_bytes and one.used >= now - unused_s:
            return
        with suppress(OSError):
            one.path.unlink()
        total -= one.size
