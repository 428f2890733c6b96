"""What a metric takes of a sample: the value of its one row, or those of all its rows
as a tuple, where something has made several of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Values = Mapping[str, Any]
"""The values of one row, by name."""


def rows_of(value: Any) -> tuple[Any, ...]:
    """The values of a sample's rows."""
    return value if isinstance(value, tuple) else (value,)


def flat(values: Iterable[Any]) -> list[Any]:
    """The values of all rows of all samples."""
    return [one for value in values for one in rows_of(value)]


def number_of(value: Any) -> float | None:
    """A number or a truth value as a number, ``None`` for everything else."""
    if isinstance(value, bool):
        return int(value)
    return value if isinstance(value, int | float) else None
