"""Encoded requests in ``cache/encoded`` of the results folder.

Models write and read the files; each may be deleted at any time, also by another run.
The folder has a maximum size: the files that were not used for the longest time are
deleted.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from pytest_evals.errors import StoreError
from pytest_evals.store.files import make_base, make_folder, replace_bytes

FOLDER = "cache/encoded"
_OPTION = "--evals-dir"
MOST_BYTES = 2**28
"""Maximum size of all files; 14,042 documents with 5 examples take about 10 MB."""
UNUSED_S = 30 * 86_400  # Seconds without a use after which a file is deleted


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
        """Return the content of a file, and note its use; ``None`` if it cannot be
        read."""
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
                make_folder(self._folder, _OPTION)
                self._n_free = MOST_BYTES // 8
                prune(self._base, MOST_BYTES - self._n_free)
            self._n_free -= len(data)
            replace_bytes(self._folder / name, [data], _OPTION)
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
