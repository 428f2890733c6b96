"""Names of tasks, groups and tags, and the files that define them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal, NamedTuple, Protocol


class IndexEntry(NamedTuple):
    """The definition of a name.

    ``path`` is the file that defines a task or a group, ``None`` for a tag; ``members``
    are the sorted names of the tasks with a tag.
    """

    name: str
    kind: Literal["task", "group", "tag"]
    path: Path | None = None
    members: tuple[str, ...] = ()


class NameIndex(Protocol):
    """An index of names."""

    def find(self, name: str, near: Path) -> IndexEntry | None:
        """Return the definition of a name in a file; ``None`` if missing."""
        ...

    def names(self, near: Path) -> Iterable[str]:
        """Return all names that a file may use."""
        ...

    def clash(self, name: str, near: Path) -> str:
        """Return the conflict in the definition of a name, empty if missing."""
        ...
