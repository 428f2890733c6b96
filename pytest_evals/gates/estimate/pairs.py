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
from pytest_evals.gates.estimate.sums import limits_of
from pytest_evals.stats.averages import mean

_ROUNDING = 1e-9


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


def check_drops(
    gate: Gate, metric: MetricResult, result: TaskResult, pairs: Pairs
) -> None:
    """Check the assumption of a gate with ``largest_drop``.

    Raises:
        InvalidGateError: A document contradicts it, it does not apply to the metric, or
            the gate would pass by it alone.
    """
    largest, how = gate.largest_drop, metric.how
    if largest is None:
        return
    assert gate.margin is not None
    old, new = [*pairs.old, *pairs.lost.values()], pairs.new
    limits = how and how.is_mean and limits_of([*old, *new], how.known_limits)
    if not limits:
        raise InvalidGateError(
            f"largest_drop needs scores in a known range, which {metric.key} has not; "
            "range: [lowest, highest] in the gate sets it"
        )
    if {*old, *new} <= {0, 1} and limits == (0, 1):
        raise InvalidGateError(
            "largest_drop is for scores between correct and wrong: an answer that "
            f"becomes wrong loses 1, and {metric.key} is 0 or 1 in all documents"
        )
    allowed = gate.margin.allowed(mean(old))
    if allowed >= largest:
        raise InvalidGateError(
            f"largest_drop {largest:g} is not above the allowed drop {allowed:.4g}: "
            "the gate would pass by assumption alone"
        )
    ids = {record.index: record.doc.id for record in result.records}
    triples = zip(pairs.positions, pairs.old, pairs.new, strict=True)
    above = [(a - b, ids[at]) for at, a, b in triples if a - b > largest + _ROUNDING]
    if above:
        drop, name = max(above)
        more = f" (and {len(above) - 1} more)" if len(above) > 1 else ""
        raise InvalidGateError(
            f"document {name!r}{more} lost {drop:.4g}, and largest_drop assumes that "
            f"no document loses more than {largest:g}: remove it or set it higher"
        )


def _is_lost(record: Record, key: str) -> bool:
    """Whether a document would have the metric, but could not be scored."""
    return bool(record.error) or any(score.key == key for score in record.scores)


def _named(ids: Sequence[str]) -> str:
    n = len(ids)
    listed = ", ".join(ids[:3]) + ", …" * (n > 3)
    return f"{n} document{'s' * (n > 1)} ({listed})"
