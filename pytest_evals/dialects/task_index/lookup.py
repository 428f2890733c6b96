"""Where the names in groups, and those of ``--evals-tasks``, are looked up.

A name in a file of a suite is looked up in the file's own folder and everything below,
then in the folder above and everything below, and so on up to the root of the suite;
then in the include paths, of which the last one counts. A name in a file that is itself
below an include path is looked up in the include paths only, as lm-eval (0.4.13) does
with its own tasks.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from pytest_evals.core.library import Entry
from pytest_evals.dialects.task_index.index import Scanner, TaskIndex


class TaskLibrary:
    """All names that a session may use; trees are read when they are first needed."""

    def __init__(
        self, root: Path, include: Sequence[Path] = (), scanner: Scanner | None = None
    ) -> None:
        """Nothing is read yet.

        Args:
            root: Root of the suite; nothing above it is looked at.
            include: Further trees; a later one overrides an earlier one.
            scanner: What reads files.
        """
        self._root = root
        self._include = tuple(include)
        self._scanner = scanner or Scanner()
        self._indices: dict[Path, TaskIndex] = {}

    def find(self, name: str, near: Path) -> Entry | None:
        """What a name means in a file; ``None`` if nothing has that name."""
        index = self._holder(name, near)
        return index.find(name) if index is not None else None

    def names(self, near: Path) -> Iterator[str]:
        """All names that a file may use; some may come twice."""
        for index in self._trees(near):
            yield from index

    def clash(self, name: str, near: Path) -> str:
        """What is odd about the definition of a name, empty if nothing is."""
        index = self._holder(name, near)
        return index.clash(name) if index is not None else ""

    def included(self, name: str) -> Entry | None:
        """What a name means in the include paths; ``None`` if nothing has it there."""
        for path in reversed(self._include):
            found = self._tree(path).find(name)
            if found is not None:
                return found
        return None

    def included_names(self) -> Iterator[str]:
        """All names of the include paths; some may come twice."""
        for path in reversed(self._include):
            yield from self._tree(path)

    def below(self, folder: Path) -> Iterator[str]:
        """The names of a folder of the suite, without those of include paths in it."""
        tree = self._tree(folder)
        inside = [path for path in self._include if path.is_relative_to(folder)]
        if not inside:
            return iter(tree)
        return tree.outside(tuple(os.path.join(path, "") for path in inside))

    def defines(self, name: str, folder: Path) -> bool:
        """Whether a task or a group of this name is defined in a folder or below."""
        found = self._tree(folder).find(name)
        return found is not None and found.path is not None

    def of_file(self, path: Path) -> Iterator[str]:
        """The names of a file of the suite."""
        yield from self._scanner.file_index(path)

    def _holder(self, name: str, near: Path) -> TaskIndex | None:
        return next((tree for tree in self._trees(near) if name in tree), None)

    def _trees(self, near: Path) -> Iterator[TaskIndex]:
        """Trees in the order in which a file looks at them."""
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
