"""The names of a tree of task files.

Order and clashes are lm-eval's (0.4.13, ``tasks/_index.py``): files in the order of
their paths, and the first definition of a name counts. What was read of a file is kept
on disk, and believed only as long as the file has the same size, inode and times.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pytest_evals.core.library import Entry
from pytest_evals.errors import Place, StoreError
from pytest_evals.frontends.index.scan import Keys, scan
from pytest_evals.store.cache import read_cache, write_cache

__all__ = ["Scanner", "TaskIndex"]

VERSION = 1
"""Raised when other things are kept of a file."""
LEAST = 200
"""Files of a tree that is worth to be kept on disk."""
SETTLED_S = 2.0
"""Seconds after which a file that is written again has other times for certain."""
_SUFFIXES = (".yaml", ".yml")
_IGNORED = frozenset({"__pycache__", ".ipynb_checkpoints"})

Stamp = tuple[int, int, int, int]


@dataclass(slots=True)
class Scanner:
    """Reads files once a session, or once for all sessions.

    Args:
        cache: The results folder, where it is kept; ``None`` to keep nothing.
        skips: Folders that are not entered, by their path.
    """

    cache: Path | None = None
    skips: Callable[[Path], bool] = lambda path: False
    known: dict[str, Keys | None] = field(default_factory=dict)
    """Path → keys, of this session."""

    def index(self, root: Path, *, everything: bool = False) -> TaskIndex:
        """The names of a tree.

        Args:
            root: Its folder.
            everything: Whether all folders are entered, even those that ``skips``
                names.
        """
        entered = (lambda path: False) if everything else self.skips
        files = dict(_walk(str(root), entered))
        names = sorted(
            (name for name in files if name.endswith(_SUFFIXES)),
            key=lambda name: name.replace(os.sep, "/"),
        )
        digest = hashlib.sha256(str(root).encode()).hexdigest()[:16]
        keeps = self.cache is not None and len(names) >= LEAST
        base, file = self.cache if keeps else None, f"index-{digest}.json"
        reading = _Reading(self, files, _kept(base, file))
        index = TaskIndex()
        for name in names:
            keys = reading.resolved(name)
            if keys is not None:
                index.register(keys, name)
        if base is not None and reading.stale:
            with suppress(StoreError):  # it only saves time
                data = {"version": VERSION, "files": reading.stamped}
                write_cache(base, file, data)
        return index

    def file_index(self, path: Path) -> TaskIndex:
        """The names of one file."""
        index = TaskIndex()
        keys = _Reading(self, {}, {}).resolved(str(path))
        if keys is not None:
            index.register(keys, str(path))
        return index


class TaskIndex:
    """The names of one tree."""

    def __init__(self) -> None:
        """Nothing is registered yet."""
        self._paths: dict[str, str] = {}
        self._groups: set[str] = set()
        self._tags: dict[str, list[str]] = {}
        self._second: dict[str, str] = {}

    def __contains__(self, name: str) -> bool:
        """Whether a task, a group or a tag has this name."""
        return name in self._paths or name in self._tags

    def __iter__(self) -> Iterator[str]:
        """All names."""
        yield from self._paths
        yield from self._tags

    def find(self, name: str) -> Entry | None:
        """What a name stands for."""
        if name in self._paths:
            kind: Literal["group", "task"]
            kind = "group" if name in self._groups else "task"
            return Entry(name, kind, Path(self._paths[name]))
        if name in self._tags:
            return Entry(name, "tag", None, tuple(sorted(set(self._tags[name]))))
        return None

    def clash(self, name: str) -> str:
        """What is odd about the definition of a name, empty if nothing is."""
        if name not in self._second:
            return ""
        first = self._paths.get(name)
        counts = Place(Path(first)) if first else "the tag"
        other = Place(Path(self._second[name]))
        return f"{name!r} is defined twice: {counts} counts, {other} does not"

    def register(self, keys: Keys, path: str) -> None:
        """Take the name and the tags of a file, if it has any.

        The first task, group or tag of a name counts; a tag that is called like a task
        or a group before it is none.
        """
        group = "group" in keys and "class" not in keys
        name = keys.get("group" if group else "task")
        if not isinstance(name, str) or not name:
            return
        if name in self._paths or name in self._tags:
            self._second.setdefault(name, path)
            return
        self._paths[name] = path
        if group:
            self._groups.add(name)
            return
        for tag in _texts(keys.get("tag")):
            if tag not in self._paths:
                self._tags.setdefault(tag, []).append(name)


class _Reading:
    """The files of a tree with what they include, as far as they are asked for."""

    def __init__(
        self, scanner: Scanner, files: dict[str, Stamp], kept: Mapping[str, Any]
    ) -> None:
        self._scanner, self._files, self._kept = scanner, files, kept
        self._resolved: dict[str, Keys | None] = {}
        self.stamped: dict[str, tuple[Stamp, Keys | None]] = {}
        self.stale = False
        self._now = time.time_ns()

    def resolved(self, name: str, chain: tuple[str, ...] = ()) -> Keys | None:
        """A file's keys over those of its includes; ``None`` if one of them cannot be
        read, or they include each other."""
        if name in chain:
            return None
        if name not in self._resolved:
            self._resolved[name] = self._unfolded(name, (*chain, name))
        return self._resolved[name]

    def _unfolded(self, name: str, chain: tuple[str, ...]) -> Keys | None:
        own = self._scanned(name)
        if own is None or not own.get("include"):
            return own
        merged: dict[str, Any] = {}
        for target in _texts(own["include"]):
            place = os.path.join(os.path.dirname(name), os.path.expanduser(target))
            part = self.resolved(os.path.normpath(place), chain)
            if part is None:
                return None
            merged.update(part)
        merged.update(own)
        return merged

    def _scanned(self, name: str) -> Keys | None:
        stamp = self._files.get(name) or _stamp(name)
        if stamp is None:
            return None
        kept = self._kept.get(name)
        keys: Keys | None
        if kept is not None and kept[0] == list(stamp):
            keys = kept[1]
        else:
            known = self._scanner.known
            if name not in known:
                known[name] = scan(Path(name))
            keys = known[name]
            self.stale = True
        if max(stamp[0], stamp[1]) < self._now - SETTLED_S * 1e9:
            self.stamped[name] = (stamp, keys)
        return keys


def _walk(folder: str, skips: Callable[[Path], bool]) -> Iterator[tuple[str, Stamp]]:
    """All files below a folder, with their stamps; links to folders are not followed,
    and what cannot be read is left out."""
    try:
        with os.scandir(folder) as found:
            entries = list(found)
    except OSError:
        return
    for entry in entries:
        try:
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in _IGNORED and not skips(Path(entry.path)):
                    yield from _walk(entry.path, skips)
            elif entry.name.endswith(_SUFFIXES) and entry.is_file():
                yield entry.path, _stamp_of(entry.stat())
        except OSError:
            continue


def _stamp(name: str) -> Stamp | None:
    try:
        return _stamp_of(os.stat(name))
    except OSError:
        return None


def _stamp_of(stat: os.stat_result) -> Stamp:
    return stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size, stat.st_ino


def _texts(value: Any) -> list[str]:
    listed = value if isinstance(value, list) else [value]
    return [one for one in listed if isinstance(one, str) and one]


def _kept(base: Path | None, file: str) -> Mapping[str, Any]:
    """Path → stamp and keys, as far as the file on disk can be used."""
    data = read_cache(base, file) if base is not None else None
    if not isinstance(data, dict) or data.get("version") != VERSION:
        return {}
    files = data.get("files")
    if not isinstance(files, dict):
        return {}
    return {name: entry for name, entry in files.items() if _is_sound(entry)}


def _is_sound(entry: object) -> bool:
    match entry:
        case [list(), None]:
            return True
        case [list(), dict(keys)]:
            return all(
                value is None
                or isinstance(value, str | bool)
                or (isinstance(value, list) and all(isinstance(v, str) for v in value))
                for value in keys.values()
            )
    return False
