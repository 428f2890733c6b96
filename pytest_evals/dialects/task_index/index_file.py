"""Disk cache of an index, and its validation.

A file is unchanged if it has the same size, inode and times; other files are scanned
again.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pytest_evals.dialects.task_index.scan import Keys
from pytest_evals.errors import StoreError
from pytest_evals.store.cache import read_cache, write_cache

SETTLED_S = 2.0
"""Seconds after which another write is certain to change a file's times."""

Stamp = list[int]
"""Modification and status change time in ns, size in bytes, inode."""


@dataclass(slots=True)
class StoredIndex:
    """Scan results of the files of a tree, and of those that they include."""

    stamps: dict[str, Stamp | None] = field(default_factory=dict)
    """Path → stamp; ``None`` for an included file that does not exist."""
    keys: dict[str, Keys | None] = field(default_factory=dict)
    """Path → keys."""

    def keys_of(self, name: str, now: Stamp | None) -> Keys | Literal[False] | None:
        """Return the keys of a file with a stamp; ``False`` if they are unknown."""
        if name not in self.stamps or self.stamps[name] != now:
            return False
        keys = self.keys.get(name)
        return keys if keys is None or _is_valid(keys) else False


def is_settled(stamp: Stamp | None, now_ns: int) -> bool:
    """Return whether any further change of a file will change its stamp. ``now_ns``:
    time in ns before the file was read."""
    return stamp is None or max(stamp[:2]) < now_ns - SETTLED_S * 1e9


def read_index(base: Path | None, file: str) -> StoredIndex:
    """Return the valid part of the disk cache. ``base``: the results folder;
    ``None`` for no cache."""
    match read_cache(base, file, "index") if base is not None else None:
        case {
            "stamps": dict(stamps),
            "keys": dict(keys),
        } if stamps.keys() == keys.keys():
            return StoredIndex(stamps, keys)
    return StoredIndex()


def write_index(base: Path | None, file: str, stored: StoredIndex) -> None:
    """Write the disk cache; a failure only makes the next session slower."""
    if base is None:
        return
    data = {"stamps": stored.stamps, "keys": stored.keys}
    with suppress(StoreError):
        write_cache(base, file, "index", data)


def stamp(name: str) -> Stamp | None:
    """Return the stamp of a file, or ``None``."""
    try:
        return stamp_of(os.stat(name))
    except (OSError, ValueError):  # such as a name with a NUL
        return None


def stamp_of(stat: os.stat_result) -> Stamp:
    """Return the stamp of a stat result."""
    return [stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size, stat.st_ino]


def _is_valid(keys: object) -> bool:
    return isinstance(keys, dict) and all(
        value is None
        or isinstance(value, str | bool)
        or (isinstance(value, list) and all(isinstance(v, str) for v in value))
        for value in keys.values()
    )
