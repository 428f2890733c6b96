"""Columns of the data that split a task's documents into slices, such as a subject."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pytest_evals.reports.escape import cut

_MOST_VALUES = 50
"""A column with more values identifies documents rather than kinds of them."""
_LONGEST = 60
"""Maximum characters of a value."""


class Slices:
    """Columns with few values: strings, integers, booleans and lists of them, of a row
    or of a mapping in it."""

    def __init__(self) -> None:
        self._columns: dict[str, dict[str, int]] = {}
        self._at: dict[str, list[list[int] | None]] = {}
        self._refused: set[str] = set()
        self._n = 0

    def add(self, doc: Any) -> None:
        """Add the row of the next document."""
        for name, values in _cells(doc):
            if name not in self._refused:
                self._add(name, values)
        self._n += 1

    def _add(self, name: str, values: list[str] | None) -> None:
        known = self._columns.setdefault(name, {})
        fits = values is not None and all(len(one) <= _LONGEST for one in values)
        if values is not None and fits:
            found = [known.setdefault(one, len(known)) for one in values]
            column = self._at.setdefault(name, [])
            column += [None] * (self._n - len(column))
            column.append(found)
        if not fits or len(known) > _MOST_VALUES:
            self._refused.add(name)
            del self._columns[name]
            self._at.pop(name, None)

    def columns(self) -> dict[str, dict[str, Any]]:
        """Return each column: its ``values`` and, for each document, the positions of
        its own ones; a single one is a number."""
        return {
            name: {
                "values": [cut(one, _LONGEST) for one in known],
                "at": [*map(_short, self._at[name])]
                + [None] * (self._n - len(self._at[name])),
            }
            for name, known in self._columns.items()
            if 2 <= len(known) <= self._n / 2 and _differ(self._at[name])
        }


def _differ(found: list[list[int] | None]) -> bool:
    """Return whether documents have different values; a list of choices is the same for
    all of them."""
    return any(one != found[0] for one in found)


def _short(found: list[int] | None) -> int | list[int] | None:
    return found[0] if found and len(found) == 1 else found


def _cells(doc: Any, prefix: str = "") -> Iterator[tuple[str, list[str] | None]]:
    """Yield names and values; ``None`` for a value that is not a label."""
    if not isinstance(doc, Mapping):
        return
    for key, value in doc.items():
        if isinstance(value, Mapping) and not prefix:
            yield from _cells(value, f"{key}.")
        elif value is not None:
            several = value if isinstance(value, list) else [value]
            labels = [_label(one) for one in several]
            known = [one for one in labels if one is not None]
            yield f"{prefix}{key}", known if len(known) == len(labels) else None


def _label(value: Any) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, str | int) else None
