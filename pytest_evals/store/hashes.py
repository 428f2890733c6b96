"""Cached hashes of large files.

A hash is reused while the file's size, inode and both timestamps are unchanged; a
program cannot set back the time of the last status change. Hashes of recently changed
files are not cached, because the clock of a file system may not distinguish two changes
in quick succession.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from pytest_evals.errors import StoreError
from pytest_evals.store.files import read_cache, write_cache

NAME = "hashes.json"
SETTLED_S = 5.0  # Seconds after which a change is visible in the timestamps


def file_hash(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal; ``OSError`` if it cannot be
    read."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


class FileHashes:
    """A function that returns the SHA-256 of files."""

    def __init__(self, base: Path, *, writes: bool = True) -> None:
        """Read the cached hashes."""
        self._base, self._writes = base, writes
        self._known: dict[str, object] = read_cache(base, NAME, "hashes")

    def __call__(self, path: Path) -> str:
        """Return the hash of a file's content, in hexadecimal; ``OSError`` if it cannot
        be read."""
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
        others = read_cache(self._base, NAME, "hashes")
        self._known = {**others, **self._known, **fresh}
        if self._writes:
            with suppress(StoreError):  # it only saves time
                write_cache(self._base, NAME, "hashes", self._known)


def _mark(path: Path) -> list[int]:
    stat = path.stat()
    return [stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns]
