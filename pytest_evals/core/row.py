"""The row of a document, which records the fields that scoring reads: a comparison with
a baseline depends on these fields and on no others."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import wraps
from typing import Any

ALL = "*"
"""Stands for all fields, where code reads the row as a whole."""
_SHORT = 16


class WatchedRow(dict[str, Any]):
    """A row that records which of its fields are read.

    It is a dict, since the code of task files expects one. Code that lists, compares or
    converts the whole row reads all fields.
    """

    __slots__ = ("is_handed", "reads", "scored")

    def __init__(self, row: Mapping[str, Any], reads: set[str] | None = None) -> None:
        """Copy a row.

        Args:
            row: The row.
            reads: Where the names of fields are recorded, shared by copies of a row.
        """
        super().__init__(row if type(row) is dict else unwatched(row))
        self.reads: set[str] = set() if reads is None else reads
        self.is_handed = False
        """Whether the row was passed to code of a task file."""
        self.scored: tuple[str, ...] | None = None
        """The fields that scoring has read; ``None`` if it did not get the row."""

    def end_of_scoring(self) -> None:
        """Keep what was read so far: later readers, such as gates, do not score."""
        if self.reads or self.is_handed:
            self.scored = (ALL,) if ALL in self.reads else tuple(sorted(self.reads))

    def copy(self) -> WatchedRow:
        """A copy whose reads count as reads of this row."""
        return WatchedRow(self, self.reads)

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> WatchedRow:
        """A copy whose reads count as reads of this row."""
        return WatchedRow(deepcopy(unwatched(self), memo), self.reads)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as a plain dict."""
        self.reads.add(ALL)
        return dict, (unwatched(self),)


def _recording(name: str, *, is_whole: bool) -> Callable[..., Any]:
    """A method of dict that records the field of its first argument, or all fields."""
    plain = getattr(dict, name)

    @wraps(plain)
    def method(self: WatchedRow, *arguments: Any) -> Any:
        self.reads.add(ALL if is_whole else str(arguments[0]))
        return plain(self, *arguments)

    return method


_OF_ONE_FIELD = ("__contains__", "__getitem__", "get", "pop", "setdefault")
_OF_ALL = (
    *("__eq__", "__iter__", "__ne__", "__or__", "__repr__", "__reversed__", "__ror__"),
    *("items", "keys", "popitem", "values"),
)
for _names, _is_whole in ((_OF_ONE_FIELD, False), (_OF_ALL, True)):
    for _name in _names:
        setattr(WatchedRow, _name, _recording(_name, is_whole=_is_whole))


def watch(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """The row with its reads recorded, from none on; an empty row has none."""
    return WatchedRow(row) if row else row


def handed(row: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a document's row for the code of a task file."""
    if isinstance(row, WatchedRow):
        row.is_handed = True
        return row.copy()
    return dict(row)


def like(row: Any, of: Mapping[str, Any]) -> Any:
    """Another copy of a document's row, whose reads are recorded with those of the
    document; a row that cannot record them counts as read.

    Args:
        row: What the code of a task file gets.
        of: The row of the document.
    """
    if not isinstance(of, WatchedRow):
        return row
    of.is_handed = True
    if type(row) is dict:
        return WatchedRow(row, of.reads)
    read_all(of)
    return row


def read_all(row: Mapping[str, Any]) -> None:
    """Record that code may read any field of a document's row."""
    if isinstance(row, WatchedRow):
        row.reads.add(ALL)


def unwatched(row: Mapping[str, Any]) -> dict[str, Any]:
    """A plain copy of a row; nothing is recorded."""
    # Not dict.copy(), which calls the methods of a subclass.
    return dict(dict.items(row)) if isinstance(row, dict) else dict(row)


def field_hash(row: Mapping[str, Any], field: str) -> str:
    """A short hash of the value of a field; empty if the row does not have it.

    Args:
        row: A row of JSON values.
        field: Name of the field.
    """
    if field not in row:
        return ""
    text = json.dumps(row[field], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:_SHORT]
