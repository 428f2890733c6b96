"""Values that a metric reads from a sample: a single value, or a tuple if a
postprocessor made several rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Values = Mapping[str, Any]
"""Name → value of one row."""


def rows_of(value: Any) -> tuple[Any, ...]:
    """Return the values of a sample's rows."""
    return value if isinstance(value, tuple) else (value,)


def flatten(values: Iterable[Any]) -> list[Any]:
    """Return the values of all rows of all samples."""
    return [one for value in values for one in rows_of(value)]


def number_of(value: Any) -> float | None:
    """Return a number or boolean as a number, ``None`` for anything else."""
    if isinstance(value, bool):
        return int(value)
    return value if isinstance(value, int | float) else None
