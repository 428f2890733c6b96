"""Looks up names in groups, in ``--evals-tasks``, and in gates files.

A name in a file of a suite is looked up in the file's own folder and its subfolders,
then in the parent folder and its subfolders, and so on up to the root of the suite;
then in the include paths, last one first. A name in a file below an include path is
looked up in the include paths only, as in lm-eval (0.4.13).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from pytest_evals.core.task import IndexEntry
from pytest_evals.dialects.detect import YAML_SUFFIXES, dialect_of, raw_of
from pytest_evals.dialects.task_index.index import Scanner, TaskIndex
from pytest_evals.errors import Place


class TaskLookup:
    """All names that a session can use; trees are read on first use."""

    def __init__(
        self, root: Path, include: Sequence[Path] = (), scanner: Scanner | None = None
    ) -> None:
        """Create the lookup. ``root``: root of the suite; folders above it are not
        searched. ``include``: further trees; a later one overrides an earlier one."""
        self._root = root
        self._include = tuple(include)
        self._scanner = scanner or Scanner()
        self._indices: dict[Path, TaskIndex] = {}

    def find(self, name: str, near: Path) -> IndexEntry | None:
        """Return the entry of a name in a file, or ``None``."""
        index = self._index_with(name, near)
        return index.find(name) if index is not None else None

    def names(self, near: Path) -> Iterator[str]:
        """Yield all names that a file can use, possibly with duplicates."""
        for index in self._trees(near):
            yield from index

    def clash(self, name: str, near: Path) -> str:
        """Return a warning about a name that is defined twice, or an empty string."""
        index = self._index_with(name, near)
        return index.clash(name) if index is not None else ""

    def included(self, name: str) -> IndexEntry | None:
        """Return the entry of a name in the include paths, or ``None``."""
        for path in reversed(self._include):
            entry = self._tree(path).find(name)
            if entry is not None:
                return entry
        return None

    def included_names(self) -> Iterator[str]:
        """Yield all names of the include paths, possibly with duplicates."""
        for path in reversed(self._include):
            yield from self._tree(path)

    def below(self, folder: Path) -> Iterator[str]:
        """Return the names of a folder of the suite, without its include paths'."""
        tree = self._tree(folder)
        inside = [path for path in self._include if path.is_relative_to(folder)]
        if not inside:
            return iter(tree)
        return tree.outside(tuple(os.path.join(path, "") for path in inside))

    def path_of(self, name: str, folder: Path) -> Path | None:
        """Return the file below a folder that defines a task or group, or ``None``."""
        entry = self._tree(folder).find(name)
        return None if entry is None else entry.path

    def of_file(self, path: Path) -> Iterator[str]:
        """Yield the names of a file of the suite."""
        yield from self._scanner.file_index(path)

    def _index_with(self, name: str, near: Path) -> TaskIndex | None:
        return next((tree for tree in self._trees(near) if name in tree), None)

    def _trees(self, near: Path) -> Iterator[TaskIndex]:
        """Yield trees in lookup order for a file."""
        folder = near.absolute().parent
        if not any(folder.is_relative_to(path) for path in self._include):
            yield self._tree(folder)
            while folder != self._root and folder.is_relative_to(self._root):
                folder = folder.parent
                yield self._tree(folder)
        for path in reversed(self._include):
            yield self._tree(path)

    def _tree(self, path: Path) -> TaskIndex:
        if path not in self._indices:
            everything = path in self._include
            self._indices[path] = self._scanner.index(path, everything=everything)
        return self._indices[path]


class Lookup(NamedTuple):
    """Location of a name, relative to a file."""

    is_below: bool = False  # whether it is defined in the file's folder or below
    unread: Place | None = None
    """The file there that names it, but is not read as a task file."""
    elsewhere: Place | None = None  # the file that defines it otherwise
    maybe: str = ""  # description of files that may define it; empty if missing
    members: Sequence[str] = ()  # tasks with a tag of this name
    names: Sequence[str] = ()  # names of tasks and groups that are defined below


class SuiteNames:
    """Looks up names of tasks and groups; trees are read on first use."""

    def __init__(
        self,
        library: TaskLookup,
        skips: Callable[[Path], bool] = lambda _: False,
        *,
        has_hooks: bool = False,
    ) -> None:
        """Create the lookup. ``has_hooks``: whether a hook reads further kinds of
        files."""
        self._library, self._skips, self._has_hooks = library, skips, has_hooks

    def look_up(self, name: str, file: Path, read: Collection[Path]) -> Lookup:
        """Return the location of a name, relative to a file. Files of other dialects
        are searched for the string; a Python module may compose its names. ``read``:
        files whose tasks are known."""
        folder, library = file.parent, self._library
        group = name.partition("::")[0]
        for path in (library.path_of(one, folder) for one in (name, group)):
            if path is not None:
                is_read = self._has_hooks or bool(dialect_of(path, raw_of))
                unread = None if is_read else Place(path)
                return Lookup(is_below=is_read, unread=unread)
        maybe = "the files of a plugin" if self._has_hooks else ""
        for path in _files(folder, self._skips):
            if path in read:
                continue
            raw, dialect = raw_of(path), dialect_of(path, raw_of)
            if dialect == "native" and name == path.stem:
                return Lookup(is_below=True)
            has_evals = path.suffix == ".py" and b"pytest_evals" in raw
            if dialect not in ("latticeflow", "lighteval") and not has_evals:
                continue
            if name.encode() in raw:
                return Lookup(is_below=True)
            if dialect == "lighteval":
                maybe = f"the tasks of {Place(path)}, which is not collected"
        entry = library.find(name, file)
        return Lookup(
            elsewhere=Place(entry.path) if entry and entry.path else None,
            maybe=maybe,
            members=entry.members if entry else (),
            names=[
                one for one in library.below(folder) if library.path_of(one, folder)
            ],
        )


def _files(folder: Path, skips: Callable[[Path], bool]) -> Iterator[Path]:
    for place, folders, names in os.walk(folder):
        folders[:] = [one for one in folders if not skips(Path(place, one))]
        for name in names:
            if name.endswith((*YAML_SUFFIXES, ".py")):
                yield Path(place, name)
