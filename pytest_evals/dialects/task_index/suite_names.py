"""Names of a suite beyond those that a session has collected."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from pytest_evals.dialects.detect import YAML_SUFFIXES, dialect_of, raw_of
from pytest_evals.dialects.task_index.lookup import TaskLibrary
from pytest_evals.errors import Place


class Lookup(NamedTuple):
    """Where a name is defined, as seen from a file.

    Args:
        is_below: Whether it is defined in the file's folder or below.
        elsewhere: The file that defines it if that is not so.
        maybe: Files that may define it, in words; empty if there are none.
        members: Tasks with a tag of this name.
        names: Names of tasks and groups that are defined below.
    """

    is_below: bool = False
    elsewhere: Place | None = None
    maybe: str = ""
    members: Sequence[str] = ()
    names: Sequence[str] = ()


class SuiteNames:
    """Looks up names of tasks and groups. Trees are read when a name is looked up."""

    def __init__(
        self,
        library: TaskLibrary,
        skips: Callable[[Path], bool] = lambda _: False,
        *,
        has_hooks: bool = False,
    ) -> None:
        """Read nothing yet.

        Args:
            library: The names of lm-eval's files.
            skips: Folders that are not entered.
            has_hooks: Whether a hook reads further kinds of files.
        """
        self._library, self._skips, self._has_hooks = library, skips, has_hooks

    def look_up(self, name: str, file: Path, read: Collection[Path]) -> Lookup:
        """Where a name is defined, as seen from a file.

        Files of other dialects than lm-eval's are searched for the text; a Python
        module may compose its names.

        Args:
            name: Of a task or a group.
            file: The file that uses it.
            read: Files whose tasks are known.
        """
        folder, library = file.parent, self._library
        group = name.partition("::")[0]
        if any(library.defines(one, folder) for one in (name, group)):
            return Lookup(is_below=True)
        maybe = "the files that a plugin reads" if self._has_hooks else ""
        for path in _files(folder, self._skips):
            found = "" if path in read else dialect_of(path, raw_of)
            if found not in ("latticeflow", "lighteval"):
                continue
            if name.encode() in raw_of(path):
                return Lookup(is_below=True)
            if found == "lighteval":
                maybe = f"the tasks of {Place(path)}, which is not collected"
        entry = library.find(name, file)
        return Lookup(
            elsewhere=Place(entry.path) if entry and entry.path else None,
            maybe=maybe,
            members=entry.members if entry else (),
            names=[
                one for one in library.below(folder) if library.defines(one, folder)
            ],
        )


def _files(folder: Path, skips: Callable[[Path], bool]) -> Iterator[Path]:
    """The YAML files and Python files below a folder."""
    for place, folders, names in os.walk(folder):
        folders[:] = [one for one in folders if not skips(Path(place, one))]
        for name in names:
            if name.endswith((*YAML_SUFFIXES, ".py")):
                yield Path(place, name)
