"""Disk cache of an index, and its validation.

A file is unchanged if it has the same size, inode and times; other files are scanned
again.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from pytest_evals.errors import StoreError
from pytest_evals.store.cache import read_cache, write_cache

SETTLED_S = 2.0
"""Seconds after which another write is certain to change a file's times."""

Stamp = list[int]
"""Modification and status change time in ns, size in bytes, inode."""


Stored = dict[str, list[Any]]
"""Path → stamp and keys of a file; the stamp is ``None`` for an included file that does
not exist, the keys are ``None`` for one that cannot be read."""


def is_settled(stamp: Stamp | None, now_ns: int) -> bool:
    """Return whether any further change of a file will change its stamp. ``now_ns``:
    time in ns before the file was read."""
    return stamp is None or max(stamp[:2]) < now_ns - SETTLED_S * 1e9


def read_index(base: Path | None, file: str) -> Stored:
    """Return the valid part of the disk cache. ``base``: the results folder;
    ``None`` for no cache."""
    match read_cache(base, file, "index") if base is not None else None:
        case {"files": dict(stored)} if all(map(_is_valid, stored.values())):
            return stored
    return {}


def write_index(base: Path | None, file: str, stored: Stored) -> None:
    """Write the disk cache; a failure only makes the next session slower."""
    if base is not None:
        with suppress(StoreError):
            write_cache(base, file, "index", {"files": stored})


def stamp(name: str) -> Stamp | None:
    """Return the stamp of a file, or ``None``."""
    try:
        return stamp_of(os.stat(name))
    except (OSError, ValueError):  # such as a name with a NUL
        return None


def stamp_of(stat: os.stat_result) -> Stamp:
    """Return the stamp of a stat result."""
    return [stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size, stat.st_ino]


def _is_valid(entry: object) -> bool:
    match entry:
        case [_, None]:
            return True
        case [_, dict(keys)]:
            return all(
                value is None
                or isinstance(value, str | bool)
                or (isinstance(value, list) and all(isinstance(v, str) for v in value))
                for value in keys.values()
            )
    return False
