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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pytest_evals.core.library import Entry
from pytest_evals.dialects.detect import YAML_SUFFIXES
from pytest_evals.dialects.task_index.index_file import (
    Stamp,
    StoredIndex,
    is_settled,
    read_kept,
    stamp,
    stamp_of,
    write_kept,
)
from pytest_evals.dialects.task_index.scan import Keys, scan
from pytest_evals.errors import Place

LEAST = 200
"""Files of a tree that is worth to be kept on disk."""
_IGNORED = frozenset({"__pycache__", ".ipynb_checkpoints"})


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
        files = _files(str(root), entered)
        digest = hashlib.sha256(str(root).encode()).hexdigest()[:16]
        base = self.cache if len(files) >= LEAST else None
        kept = read_kept(base, f"index-{digest}.json")
        if kept.holds_for(files):
            index = TaskIndex.of_state(kept.names)
            if index is not None:
                return index
        index = TaskIndex()
        reading = _Reading(self, files, kept)
        for name in sorted(files, key=lambda name: name.replace(os.sep, "/")):
            keys = reading.resolved(name)
            if keys is not None:
                index.register(keys, name)
        reading.new.names = index.state() if reading.settled else None
        write_kept(base, f"index-{digest}.json", reading.new)
        return index

    def file_index(self, path: Path) -> TaskIndex:
        """The names of one file."""
        index = TaskIndex()
        keys = _Reading(self, {}, StoredIndex()).resolved(str(path))
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

    def state(self) -> dict[str, Any]:
        """All that is registered, as JSON can say it."""
        groups, tags, second = sorted(self._groups), self._tags, self._second
        return {"paths": self._paths, "groups": groups, "tags": tags, "second": second}

    @classmethod
    def of_state(cls, state: Any) -> TaskIndex | None:
        """The index that said this; ``None`` if none can have."""
        index = cls()
        try:
            index._paths, index._second = state["paths"], state["second"]
            index._groups, index._tags = set(state["groups"]), state["tags"]
            told = [index._paths, index._second, dict.fromkeys(index._groups, "")]
            told += [dict.fromkeys(names, "") for names in index._tags.values()]
            sound = all(_is_text(*pair) for one in told for pair in one.items())
        except (KeyError, TypeError, AttributeError):
            return None
        return index if sound else None

    def __contains__(self, name: str) -> bool:
        """Whether a task, a group or a tag has this name."""
        return name in self._paths or name in self._tags

    def __iter__(self) -> Iterator[str]:
        """All names."""
        yield from self._paths
        yield from self._tags

    def outside(self, folders: tuple[str, ...]) -> Iterator[str]:
        """Names of what is defined in none of these folders, and tags of such tasks.

        Args:
            folders: Absolute, each with a separator at its end.
        """
        inside = {name for name, p in self._paths.items() if p.startswith(folders)}
        yield from (name for name in self._paths if name not in inside)
        yield from (
            tag for tag, own in self._tags.items() if not inside.issuperset(own)
        )

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
        self, scanner: Scanner, files: Mapping[str, Stamp], kept: StoredIndex
    ) -> None:
        self._scanner, self._files, self._kept = scanner, files, kept
        self._resolved: dict[str, Keys | None] = {}
        self._now_ns = time.time_ns()
        self.new = StoredIndex()
        """What is known now of all files that further changes will show of."""
        self.settled = True
        """Whether these are all files."""

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
        now = self._files.get(name) or stamp(name)
        keys = self._kept.keys_of(name, now)
        if keys is False:
            known = self._scanner.known
            if name not in known:
                known[name] = scan(Path(name)) if now is not None else None
            keys = known[name]
        if is_settled(now, self._now_ns):
            self.new.stamps[name], self.new.keys[name] = now, keys
        else:
            self.settled = False
        return keys


def _files(root: str, skips: Callable[[Path], bool]) -> dict[str, Stamp]:
    """All task files below a folder, with their stamps; links to folders are not
    followed, and what cannot be read is left out."""
    files: dict[str, Stamp] = {}
    folders = [root]
    while folders:
        try:
            with os.scandir(folders.pop()) as found:
                entries = list(found)
        except OSError:
            continue
        for entry in entries:
            try:
                if entry.is_dir(follow_symlinks=False):
                    if entry.name not in _IGNORED and not skips(Path(entry.path)):
                        folders.append(entry.path)
                elif entry.name.endswith(YAML_SUFFIXES) and entry.is_file():
                    files[entry.path] = stamp_of(entry.stat())
            except OSError:
                continue
    return files


def _texts(value: Any) -> list[str]:
    listed = value if isinstance(value, list) else [value]
    return [one for one in listed if isinstance(one, str) and one]


def _is_text(name: object, value: object) -> bool:
    return isinstance(name, str) and isinstance(value, str)
