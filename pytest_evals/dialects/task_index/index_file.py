"""What an index of a tree of task files keeps on disk, and when it is believed.

A file is believed to be what it was as long as it has the same size, inode and times.
If that is so of all files, and there are no others, then the names that they have
together are those of last time; else the files that have changed are read again.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pytest_evals.dialects.task_index.scan import Keys
from pytest_evals.errors import StoreError
from pytest_evals.store.cache import read_cache, write_cache

SETTLED_S = 2.0
"""Seconds after which a file that is written again has other times for certain."""

Stamp = list[int]
"""Times of the last change in ns, of content and of anything; bytes; inode."""


@dataclass(slots=True)
class StoredIndex:
    """What is known of the files of a tree, and of those that they include."""

    stamps: dict[str, Stamp | None] = field(default_factory=dict)
    """Path → stamp; ``None`` for a file that is included and does not exist."""
    keys: dict[str, Keys | None] = field(default_factory=dict)
    """Path → keys."""
    names: dict[str, Any] | None = None
    """The names of the whole tree, as ``TaskIndex.state`` gives them."""

    def holds_for(self, files: Mapping[str, Stamp]) -> bool:
        """Whether nothing has changed since.

        Args:
            files: The files of the tree, with their stamps.
        """
        if self.names is None:
            return False
        others = {name: stamp(name) for name in self.stamps if name not in files}
        return self.stamps == {**files, **others}

    def keys_of(self, name: str, now: Stamp | None) -> Keys | Literal[False] | None:
        """The keys of a file with a stamp; ``False`` if they are not known."""
        if name not in self.stamps or self.stamps[name] != now:
            return False
        keys = self.keys.get(name)
        return keys if keys is None or _is_sound(keys) else False


def is_settled(stamp: Stamp | None, now_ns: int) -> bool:
    """Whether any further change of a file will show in its stamp.

    Args:
        stamp: Of the file.
        now_ns: Time in ns, as of before the file was read.
    """
    return stamp is None or max(stamp[:2]) < now_ns - SETTLED_S * 1e9


def read_kept(base: Path | None, file: str) -> StoredIndex:
    """What is on disk, as far as it can be used.

    Args:
        base: The results folder; ``None`` for nothing.
        file: Name of the file.
    """
    match read_cache(base, file, "index") if base is not None else None:
        case {
            "stamps": dict(stamps),
            "keys": dict(keys),
            "names": dict() | None as names,
        } if stamps.keys() == keys.keys():
            return StoredIndex(stamps, keys, names)
    return StoredIndex()


def write_kept(base: Path | None, file: str, kept: StoredIndex) -> None:
    """Put it on disk; where that fails, the next session takes longer."""
    if base is None:
        return
    stamps, keys, names = kept.stamps, kept.keys, kept.names
    data = {"stamps": stamps, "keys": keys, "names": names}
    with suppress(StoreError):
        write_cache(base, file, "index", data)


def stamp(name: str) -> Stamp | None:
    """The stamp of a file, ``None`` if there is none."""
    try:
        return stamp_of(os.stat(name))
    except (OSError, ValueError):  # such as a name with a NUL
        return None


def stamp_of(stat: os.stat_result) -> Stamp:
    """The stamp of a file that has been asked for its state."""
    return [stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size, stat.st_ino]


def _is_sound(keys: object) -> bool:
    return isinstance(keys, dict) and all(
        value is None
        or isinstance(value, str | bool)
        or (isinstance(value, list) and all(isinstance(v, str) for v in value))
        for value in keys.values()
    )
