"""Names of tasks, groups and tags, and where they are defined."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal, NamedTuple, Protocol


class Entry(NamedTuple):
    """What a name stands for.

    ``path`` is the file that defines a task or a group, ``None`` for a tag; ``members``
    are the names of the tasks that carry a tag, sorted.
    """

    name: str
    kind: Literal["task", "group", "tag"]
    path: Path | None = None
    members: tuple[str, ...] = ()


class Library(Protocol):
    """Whatever knows names."""

    def find(self, name: str, near: Path) -> Entry | None:
        """What a name means in a file; ``None`` if nothing has that name."""
        ...

    def names(self, near: Path) -> Iterable[str]:
        """All names that a file may use."""
        ...

    def clash(self, name: str, near: Path) -> str:
        """What is odd about the definition of a name, empty if nothing is."""
        ...
