"""What a gate rests on: the values of documents, their clusters, and a baseline."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pytest_evals.core.doc import Doc
from pytest_evals.core.result import TaskResult
from pytest_evals.gates.evidence.unsound import UnsoundError

__all__ = ["labels_in", "labels_of", "values_of"]


def labels_in(doc: Doc, fields: Collection[str]) -> dict[str, str]:
    """The fields of a document that gates group documents by, as text; those that it
    does not have are left out."""
    found = {}
    for field in fields:
        value = _value(doc, field)
        if value is not None:
            found[field] = str(value)
    return found


def _value(doc: Doc, field: str) -> Any:
    """A field of the row, or of what the task keeps of it; ``idx.paragraph`` is the
    field of a field."""
    for holder in (doc.row, doc.specific or {}):
        value: Any = holder
        for part in [field] if field in holder else field.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        if value is not None:
            return value
    return None


def values_of(result: TaskResult, key: str) -> dict[int, Any]:
    """Position of each document that has one to its value of a metric.

    Args:
        result: The task.
        key: Metric and filter: ``acc,none``.
    """
    return {
        record.index: score.value
        for record in result.records
        for score in record.scores
        if score.key == key and not (score.unscored or record.error or record.excluded)
    }


def labels_of(
    result: TaskResult, field: str, positions: Sequence[int]
) -> list[str] | None:
    """The cluster of each of these documents.

    Args:
        result: The task.
        field: Field of the rows that holds it; empty if they do not hang together,
            which gives ``None``.
        positions: The documents.

    Raises:
        UnsoundError: A document has no such field, or all have the same value.
    """
    if not field:
        return None
    records = {record.index: record for record in result.records}
    found = []
    for position in positions:
        record = records[position]
        if field not in record.labels:
            raise UnsoundError(
                f"document {record.doc.id!r} has no field {field!r} to cluster by"
            )
        found.append(record.labels[field])
    if len({*found}) < 2:
        raise UnsoundError(
            f"all documents have the same {field!r}: one cluster says nothing of others"
        )
    return found
