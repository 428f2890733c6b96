"""Documents of the task ``reversal``, built from rows of letters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datasets import Dataset

__all__ = ["without_repeats"]


def without_repeats(rows: Dataset) -> Dataset:
    """Return the rows without repeated letters, with their ``reversed`` order added."""
    return rows.filter(_all_differ).map(_add_reversed)


def _all_differ(row: dict[str, Any]) -> bool:
    letters = row["letters"].split()
    return len(set(letters)) == len(letters)


def _add_reversed(row: dict[str, Any]) -> dict[str, Any]:
    return {"reversed": " ".join(reversed(row["letters"].split()))}
