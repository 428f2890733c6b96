"""Documents without a score: the estimates with all of them at the lowest value, and at
the highest. A gate is decided only if the verdict is the same for both."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from pytest_evals.core.gate import Gate
from pytest_evals.core.metric import MetricResult
from pytest_evals.core.record import Record, Score
from pytest_evals.core.reference import Find
from pytest_evals.core.result import GroupResult, TaskResult
from pytest_evals.gates.documents import InvalidGateError
from pytest_evals.gates.estimate.estimate import Bracket, GateEstimate
from pytest_evals.gates.estimate.gate import estimate_gate, estimate_member
from pytest_evals.gates.estimate.group import combined, extremes, members_of
from pytest_evals.gates.estimate.value import estimate_point
from pytest_evals.stats.interval_methods import NormalEstimate


def bracket_of(
    gate: Gate,
    metric: MetricResult,
    result: TaskResult | GroupResult,
    estimate: GateEstimate,
    find: Find,
) -> Bracket:
    """The estimates for the possible values of the documents without a score, from the
    lowest to the highest; none if the range of the values, or the cluster of such a
    document, is unknown.

    Args:
        metric: The metric, reduced if the gate has a reducer.
        estimate: The estimate without these documents.
    """
    try:
        if isinstance(result, GroupResult):
            return _of_group(gate, metric, result, estimate, find)
        counts = [0, metric.n_lost]
        # Between two thresholds, the verdict may differ from that at both extremes.
        if len(gate.bounds) > 1 and estimate.is_share and not gate.cluster:
            counts = [*range(metric.n_lost + 1)]
        return tuple(
            estimate_gate(gate, *completed(metric, result, n_high), find)
            for n_high in counts
        )
    except InvalidGateError:
        return ()


def _of_group(
    gate: Gate,
    metric: MetricResult,
    result: GroupResult,
    estimate: GateEstimate,
    find: Find,
) -> Bracket:
    """All tasks at their extremes together."""
    is_normal = isinstance(estimate.spread, NormalEstimate)
    lowest = [_filled(task, metric.key, 0) for task in result.tasks]
    members = members_of(gate, metric, replace(result, tasks=tuple(lowest)))
    possible = []
    for member in members:
        task = next(one for one in result.tasks if one.task.name == member.name)
        own = next(one for one in task.metrics if one.key == metric.key)
        varied = _most_varied(own) if is_normal else ()
        counts = (0, *varied, own.n_lost) if own.n_lost else (0,)
        cases = (completed(own, task, n_high) for n_high in counts)
        possible.append([estimate_member(gate, *one, find) for one in cases])
    return tuple(
        combined(gate, members, estimates, freedom)
        for estimates, freedom in extremes(possible, is_normal=is_normal)
    )


def _most_varied(metric: MetricResult) -> Sequence[int]:
    """How many of the missing documents have value 1 if the values vary most."""
    if metric.total is None:
        return ()
    n = metric.n_scored + metric.n_lost
    return (min(max(n // 2 - metric.total, 0), metric.n_lost),)


def _filled(task: TaskResult, key: str, n_high: int) -> TaskResult:
    own = next((one for one in task.metrics if one.key == key), None)
    if own is None or not own.n_lost or not own.n_scored:
        return task
    return completed(own, task, n_high)[1]


def completed(
    metric: MetricResult, result: TaskResult, n_high: int
) -> tuple[MetricResult, TaskResult]:
    """The task with a score for each document.

    Args:
        n_high: How many of the documents without one get the highest value; the others
            get the lowest.

    Raises:
        InvalidGateError: The range of the values is unknown.
    """
    n_lost, is_labelled = metric.n_lost, metric.how is not None and metric.how.labels
    if not n_lost:
        return metric, result
    low, high = estimate_point(metric).range
    if not math.isfinite(low) or not math.isfinite(high) or is_labelled:
        raise InvalidGateError(f"the range of {metric.key} is unknown")
    assert metric.estimate is not None
    values = [high] * n_high + [low] * (n_lost - n_high)
    n = metric.n_scored + n_lost
    total = metric.total if (low, high) == (0, 1) else None
    whole = replace(
        metric,
        estimate=replace(
            metric.estimate,
            value=(metric.estimate.value * metric.n_scored + math.fsum(values)) / n,
        ),
        n_scored=n,
        n_errored=0,
        n_unscored=0,
        total=None if total is None else total + n_high,
    )
    scores = (one for record in result.records for one in record.scores)
    like = next((s for s in scores if s.key == metric.key and not s.unscored), None)
    if like is not None:
        left = iter(values)
        records = [
            _with_value(record, like, next(left))
            if _is_lost(record, metric.key)
            else record
            for record in result.records
        ]
        result = replace(result, records=tuple(records))
    others = (whole if one.key == metric.key else one for one in result.metrics)
    return whole, replace(result, metrics=tuple(others))


def _is_lost(record: Record, key: str) -> bool:
    """Whether a document would have the metric, but could not be scored."""
    unscored = any(one.key == key and one.unscored for one in record.scores)
    return not record.excluded and (bool(record.error) or unscored)


def _with_value(record: Record, like: Score, value: float) -> Record:
    repeats = (value,) * len(like.repeats)
    score = Score(metric=like.metric, filter=like.filter, value=value, repeats=repeats)
    others = (one for one in record.scores if one.key != like.key)
    return replace(record, error="", scores=(*others, score))
