"""Fields of rows that scoring reads, compared between two runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from pytest_evals.core.doc import ALL, field_hash

Row = Mapping[str, Any]


def reads_of(rows: Iterable[Row]) -> frozenset[str]:
    """The fields that scoring has read in all of these documents. Where code got rows
    and was never seen to read one, it may have read all fields."""
    known = {tuple(row["reads"]) for row in rows if row.get("reads") is not None}
    found = frozenset(field for one in known for field in one)
    return found or frozenset([ALL] if known else [])


def field_faults(
    old: Row,
    new: Row,
    reads: Collection[str],
    doc_of: Callable[[Row], Mapping[str, Any]] | None,
) -> Iterator[str]:
    """The differences in the fields that scoring reads, one sentence each.

    Args:
        old: A document as the samples file of a run or a baseline has it.
        new: The document of the later run.
        reads: Fields that scoring reads.
        doc_of: Gives the row of a dataset that ``new`` was made of, if it has none.
    """
    doc = doc_of(new) if doc_of is not None else new.get("doc") or {}
    saved: Mapping[str, str] = old.get("fields") or {}
    if old.get("doc"):
        saved = {ALL: "", **{one: field_hash(old["doc"], one) for one in old["doc"]}}
    if ALL in reads and ALL not in saved:
        yield "the data has changed, and scoring reads whole rows, which it did not"
        return
    why = "may read, since it gets whole rows" if ALL in reads else "reads"
    for field in sorted({*doc, *saved} - {ALL} if ALL in reads else reads):
        if field not in saved and ALL not in saved:
            yield f"scoring reads the field {field!r}, which it did not"
        elif field_hash(doc, field) != saved.get(field, ""):
            yield f"the field {field!r}, which scoring {why}, has changed"
