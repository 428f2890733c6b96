"""The documents of a baseline and of this run, paired."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from pytest_evals.core.gate import Gate
from pytest_evals.core.metric import MetricResult
from pytest_evals.core.record import Record
from pytest_evals.core.reference import Reference
from pytest_evals.core.result import TaskResult
from pytest_evals.errors import suggestion
from pytest_evals.gates.documents import (
    InvalidGateError,
    reduced_reference,
    values_of,
)


class Pairs(NamedTuple):
    """The paired documents of both runs.

    Args:
        positions: Documents with a score in both.
        old: Their values in the baseline.
        new: Their values now.
        lost: Position of each document without a score now → its value in the baseline.
    """

    positions: list[int]
    old: list[Any]
    new: list[Any]
    lost: dict[int, Any]


def pairs_of(
    gate: Gate, metric: MetricResult, result: TaskResult, reference: Reference
) -> Pairs:
    """The values of both runs, paired.

    Raises:
        InvalidGateError: Their documents differ, or the list is empty.
    """
    name = reference.baseline
    old = reference.values.get(metric.key)
    if old is not None and gate.reducer:
        old = reduced_reference(gate, metric, reference)
    if old is None:
        hint = suggestion(metric.key, reference.values)
        raise InvalidGateError(f"baseline {name!r} has no {metric.key}{hint}")
    new = values_of(result, metric.key)
    included = [record for record in result.records if not record.excluded]
    if gate.allows_missing:
        new = {index: value for index, value in new.items() if index in old}
        included = [
            one
            for one in included
            if one.index in old and (one.index in new or _is_lost(one, metric.key))
        ]
    if not new or metric.how is None:
        raise InvalidGateError(
            f"{metric.key} has no value per document, so nothing can be paired"
        )
    absent = [record.doc.id for record in included if record.index not in old]
    if absent:
        raise InvalidGateError(
            f"{_named(absent)} had no score in baseline {name!r}; save it again from a "
            "run without errors"
        )
    excluded = [r.doc.id for r in result.records if r.excluded and r.index in old]
    if excluded:
        why = f"{_named(excluded)} counted in baseline {name!r} but not now"
        raise InvalidGateError(why)
    lost = {r.index: old[r.index] for r in included if r.index not in new}
    return Pairs([*new], [old[i] for i in new], [*new.values()], lost)


def _is_lost(record: Record, key: str) -> bool:
    """Whether a document would have the metric, but could not be scored."""
    return bool(record.error) or any(score.key == key for score in record.scores)


def _named(ids: Sequence[str]) -> str:
    n = len(ids)
    listed = ", ".join(ids[:3]) + ", …" * (n > 3)
    return f"{n} document{'s' * (n > 1)} ({listed})"
