"""Index of the names in a tree of task files.

Order and precedence are lm-eval's (0.4.13, ``tasks/_index.py``): files are sorted by
path, and the first definition of a name is used. Scan results are cached on disk and
reused while a file has the same size, inode and times.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml

from pytest_evals.core.task import IndexEntry
from pytest_evals.data.yaml_loader import BoundedLoader
from pytest_evals.dialects.detect import YAML_SUFFIXES
from pytest_evals.errors import Place, StoreError
from pytest_evals.store.cache import read_cache, write_cache

SETTLED_S = 2.0  # seconds after which another write is certain to change a file's times

Stamp = list[int]  # modification and status change time in ns, size in bytes, inode


Stored = dict[str, list[Any]]
"""Path → stamp and keys of a file; the stamp is ``None`` for an included file that does
not exist, the keys are ``None`` for one that cannot be read."""


def is_settled(stamp: Stamp | None, now_ns: int) -> bool:
    """Return whether any further change of a file will change its stamp. ``now_ns``:
    time in ns before the file was read."""
    return stamp is None or max(stamp[:2]) < now_ns - SETTLED_S * 1e9


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


Keys = Mapping[str, str | list[str] | bool | None]
"""The scanned keys of a file. A value that is neither a string nor a list of strings is
``True``."""

_WATCHED = ("task", "group", "tag", "include", "class")
_STRING, _NULL = "tag:yaml.org,2002:str", "tag:yaml.org,2002:null"


def scan(path: Path) -> Keys | None:
    """Return the keys of a file, without its includes. Returns ``None`` if the file
    cannot be read. Of invalid YAML, such as a file that is cut off, the lines with
    names count."""
    try:
        raw = path.read_bytes()
    except OSError:
        return None
    try:
        loader = BoundedLoader(raw)
        root = loader.get_single_node()
        if isinstance(root, yaml.MappingNode):
            loader.flatten_mapping(root)  # the merge key <<
    except (RecursionError, ValueError):
        return None
    except yaml.YAMLError:
        named = re.findall(rb"(?m)^(task|group):[ \t]+([\w./+-]+)", raw)
        return {key.decode(): name.decode("utf-8", "replace") for key, name in named}
    if root is None:
        return {}
    if not isinstance(root, yaml.MappingNode):
        return None
    return {
        key.value: _summary(value)
        for key, value in root.value
        if isinstance(key, yaml.ScalarNode) and key.value in _WATCHED
    }


def _summary(node: yaml.Node) -> str | list[str] | bool | None:
    if isinstance(node, yaml.SequenceNode):
        if all(one.tag == _STRING for one in node.value):
            return [one.value for one in node.value]
    elif node.tag in (_STRING, _NULL):
        return node.value if node.tag == _STRING else None
    return True


LEAST = 200  # minimum number of files for the disk cache
_IGNORED = frozenset({"__pycache__", ".ipynb_checkpoints"})


@dataclass(slots=True)
class Scanner:
    """Scans files, once per session or once for all sessions. ``cache``: the results
    folder, for the disk cache; ``None`` for no cache. ``skips``: returns whether a
    folder is not entered."""

    cache: Path | None = None
    skips: Callable[[Path], bool] = lambda path: False
    known: dict[str, Keys | None] = field(default_factory=dict)
    """Path → keys, in this session."""

    def index(self, root: Path, *, everything: bool = False) -> TaskIndex:
        """Return the index of a tree. ``everything``: whether folders that ``skips``
        excludes are entered too."""
        entered = (lambda path: False) if everything else self.skips
        files = _files(str(root), entered)
        digest = hashlib.sha256(str(root).encode()).hexdigest()[:16]
        base = self.cache if len(files) >= LEAST else None
        file, stored = f"index-{digest}.json", dict[str, list[Any]]()
        match read_cache(base, file, "index") if base is not None else None:
            case {"files": dict(found)} if all(map(_is_valid, found.values())):
                stored = found
        index = TaskIndex()
        resolver = _IncludeResolver(self, files, stored)
        for name in sorted(files, key=lambda name: name.replace(os.sep, "/")):
            keys = resolver.resolve(name)
            if keys is not None:
                index.register(keys, name)
        if base is not None and resolver.new != stored:
            with suppress(StoreError):  # it only makes the next session slower
                write_cache(base, file, "index", {"files": resolver.new})
        return index

    def file_index(self, path: Path) -> TaskIndex:
        """Return the index of one file."""
        index = TaskIndex()
        keys = _IncludeResolver(self, {}, {}).resolve(str(path))
        if keys is not None:
            index.register(keys, str(path))
        return index


class TaskIndex:
    """The names of one tree."""

    def __init__(self) -> None:
        self._paths: dict[str, str] = {}
        self._groups: set[str] = set()
        self._tags: dict[str, list[str]] = {}
        self._second: dict[str, str] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._paths or name in self._tags

    def __iter__(self) -> Iterator[str]:
        yield from self._paths
        yield from self._tags

    def outside(self, folders: tuple[str, ...]) -> Iterator[str]:
        """Yield names that are defined in none of these folders, and tags of such
        tasks. ``folders``: absolute paths with a trailing separator."""
        inside = {name for name, p in self._paths.items() if p.startswith(folders)}
        yield from (name for name in self._paths if name not in inside)
        yield from (
            tag for tag, names in self._tags.items() if not inside.issuperset(names)
        )

    def find(self, name: str) -> IndexEntry | None:
        """Return the entry of a name, or ``None``."""
        if name in self._paths:
            kind: Literal["group", "task"]
            kind = "group" if name in self._groups else "task"
            return IndexEntry(name, kind, Path(self._paths[name]))
        if name in self._tags:
            return IndexEntry(name, "tag", None, tuple(sorted(set(self._tags[name]))))
        return None

    def clash(self, name: str) -> str:
        """Return a warning about a name that is defined twice, or an empty string."""
        if name not in self._second:
            return ""
        first = self._paths.get(name)
        used = Place(Path(first)) if first else "the tag"
        other = Place(Path(self._second[name]))
        return f"{name!r} is defined twice: {used} is used, {other} is ignored"

    def register(self, keys: Keys, path: str) -> None:
        """Add the name and the tags of a file. The first task, group or tag with a name
        is used; a tag with the name of an earlier task or group is ignored."""
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


class _IncludeResolver:
    def __init__(
        self, scanner: Scanner, files: Mapping[str, Stamp], stored: Stored
    ) -> None:
        self._scanner, self._files, self._stored = scanner, files, stored
        self._resolved: dict[str, Keys | None] = {}
        self._now_ns = time.time_ns()
        self.new: Stored = {}
        """What is known now of all files that further changes will show of."""

    def resolve(self, name: str, chain: tuple[str, ...] = ()) -> Keys | None:
        """Return a file's keys merged with those of its includes; ``None`` if one
        cannot be read, or the includes are circular."""
        if name in chain:
            return None
        if name not in self._resolved:
            self._resolved[name] = self._merge_includes(name, (*chain, name))
        return self._resolved[name]

    def _merge_includes(self, name: str, chain: tuple[str, ...]) -> Keys | None:
        keys = self._scan(name)
        if keys is None or not keys.get("include"):
            return keys
        merged: dict[str, Any] = {}
        for target in _texts(keys["include"]):
            place = os.path.join(os.path.dirname(name), os.path.expanduser(target))
            part = self.resolve(os.path.normpath(place), chain)
            if part is None:
                return None
            merged.update(part)
        merged.update(keys)
        return merged

    def _scan(self, name: str) -> Keys | None:
        now = self._files.get(name) or stamp(name)
        if name in self._stored and self._stored[name][0] == now:
            keys: Keys | None = self._stored[name][1]
        else:
            known = self._scanner.known
            if name not in known:
                known[name] = scan(Path(name)) if now is not None else None
            keys = known[name]
        if is_settled(now, self._now_ns):
            self.new[name] = [now, keys]
        return keys


def _files(root: str, skips: Callable[[Path], bool]) -> dict[str, Stamp]:
    """Return all task files below a folder with their stamps. Links to folders are not
    followed, and unreadable entries are skipped."""
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
