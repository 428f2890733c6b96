"""Looks up names of a suite that a session has not collected."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from pytest_evals.dialects.detect import YAML_SUFFIXES, dialect_of, raw_of
from pytest_evals.dialects.task_index.lookup import TaskLookup
from pytest_evals.errors import Place


class Lookup(NamedTuple):
    """Location of a name, relative to a file.

    Args:
        is_below: Whether it is defined in the file's folder or below.
        unread: The file there that names it, but is not read as a task file.
        elsewhere: The file that defines it otherwise.
        maybe: Description of files that may define it; empty if missing.
        members: Tasks with a tag of this name.
        names: Names of tasks and groups that are defined below.
    """

    is_below: bool = False
    unread: Place | None = None
    elsewhere: Place | None = None
    maybe: str = ""
    members: Sequence[str] = ()
    names: Sequence[str] = ()


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
        """Return the location of a name, relative to a file.

        Files of other dialects are searched for the string; a Python module may compose
        its names.

        Args:
            read: Files whose tasks are known.
        """
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
    """Yield the YAML and Python files below a folder."""
    for place, folders, names in os.walk(folder):
        folders[:] = [one for one in folders if not skips(Path(place, one))]
        for name in names:
            if name.endswith((*YAML_SUFFIXES, ".py")):
                yield Path(place, name)
