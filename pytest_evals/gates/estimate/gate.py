"""The estimate of a gate: by its keys, of a task's value or of its change; the same of
the tasks of a group, combined."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial

from pytest_evals.core.gate import Gate
from pytest_evals.core.metric import MetricResult
from pytest_evals.gates.estimate.change import estimate_change
from pytest_evals.gates.estimate.group import combined, extremes
from pytest_evals.gates.estimate.published import estimate_published
from pytest_evals.gates.estimate.sampled_run import (
    estimate_sample,
    estimate_sampled_group,
    is_sample,
    sampled_run,
)
from pytest_evals.gates.estimate.value import estimate_point, estimate_value
from pytest_evals.gates.observations import GroupObservations, Observations
from pytest_evals.gates.terms import (
    Bracket,
    ChangeEstimate,
    GateEstimate,
    InvalidGateError,
)
from pytest_evals.stats.interval_methods import NormalEstimate


def estimate_gate(
    gate: Gate, seen: Observations | GroupObservations
) -> tuple[GateEstimate, Bracket]:
    """The estimate of a gate, and the estimates for the possible values of the
    documents without a score, from the lowest to the highest: none without such
    documents, or if the range of the values, or a cluster, is unknown.

    Raises:
        InvalidGateError: The runs cannot be compared, or the variance is unknown.
    """
    estimate = _estimate(gate, seen)
    if not estimate.n_missing or not (gate.bounds or gate.margin):
        return estimate, ()
    try:
        if isinstance(seen, GroupObservations):
            return estimate, _group_bracket(gate, seen, estimate)
        n_lost, ends = seen.metric.n_lost, estimate_point(seen.metric).range
        counts: Sequence[int] = (0, n_lost)
        # Between two thresholds, the verdict may differ from that at both extremes.
        if len(gate.bounds) > 1 and estimate.is_share and not gate.cluster:
            counts = range(n_lost + 1)
        return estimate, tuple(
            _estimate(gate, seen.completed(n_high, ends)) for n_high in counts
        )
    except InvalidGateError:
        return estimate, ()


def _estimate(gate: Gate, seen: Observations | GroupObservations) -> GateEstimate:
    if isinstance(seen, GroupObservations):
        estimate = _of_group(gate, seen)
    else:
        estimate = _of_single(gate, seen)
    return estimate if not gate.published else estimate_published(gate, seen, estimate)


def _of_task(gate: Gate, seen: Observations) -> GateEstimate:
    """The value or the change of a task, alone or in a group."""
    is_change = gate.baseline and gate.margin is not None
    return estimate_change(gate, seen) if is_change else estimate_value(gate, seen)


def _of_single(gate: Gate, seen: Observations) -> GateEstimate:
    if not is_sample(gate, seen):
        return _of_task(gate, seen)
    if found := sampled_run(gate, seen):
        return estimate_sample(gate, found)
    return _as_new_documents(gate, seen.metric, partial(_of_task, seen=seen))


def _as_new_documents(
    gate: Gate, metric: MetricResult, estimate: Callable[[Gate], GateEstimate]
) -> GateEstimate:
    """The estimate of a sample that the baseline cannot complete: limits for a
    population of documents hold for a benchmark, too."""
    found = estimate(replace(gate, over="population"))
    note = (
        f"limits of a sample of documents: {metric.name} is not a mean of values in a "
        "known range, so the baseline does not complete the sample"
    )
    return replace(found, notes=(*found.notes, note), of_sample=True)


def _of_group(gate: Gate, seen: GroupObservations) -> GateEstimate:
    members = seen.members
    if not members:
        return estimate_point(seen.metric)
    if not any(is_sample(gate, one.seen) for one in members):
        return _combined(gate, seen)
    found = {one.seen.task: sampled_run(gate, one.seen) for one in members}
    known = {name: one for name, one in found.items() if one is not None}
    if len(known) < len(found):
        return _as_new_documents(gate, seen.metric, partial(_combined, seen=seen))
    sizes = [
        seen.times[name] * (one.n_whole if seen.is_weighted else 1)
        for name, one in known.items()
    ]
    weights = [Fraction(size, sum(sizes)) for size in sizes]
    return replace(
        estimate_sampled_group(gate, known, weights),
        n_errored=seen.metric.n_errored,
        n_unscored=seen.metric.n_unscored,
    )


def _combined(gate: Gate, seen: GroupObservations) -> GateEstimate:
    metric, members = seen.metric, seen.members
    estimates = []
    for member in members:
        try:
            estimates.append(_of_task(gate, member.seen))
        except InvalidGateError as error:
            raise error.of_task(member.seen.task) from error
    whole = replace(
        combined(gate, members, estimates),
        n_errored=metric.n_errored,
        n_unscored=metric.n_unscored,
    )
    if isinstance(whole, ChangeEstimate):
        return whole
    return replace(whole, n=metric.n_scored, count=metric.total)


def _group_bracket(
    gate: Gate, seen: GroupObservations, estimate: GateEstimate
) -> Bracket:
    """All tasks at their extremes together."""
    is_normal = isinstance(estimate.spread, NormalEstimate)
    tasks = [member.seen for member in seen.members]
    filled = seen.with_tasks([_with_lost(one, 0) for one in tasks]).members
    possible = []
    for one in tasks:
        n_lost = one.metric.n_lost
        varied = _most_varied(one.metric) if is_normal else ()
        counts = (0, *varied, n_lost) if n_lost else (0,)
        possible.append([_of_task(gate, _with_lost(one, n)) for n in counts])
    return tuple(
        combined(gate, filled, estimates, freedom)
        for estimates, freedom in extremes(possible, is_normal=is_normal)
    )


def _with_lost(seen: Observations, n_high: int) -> Observations:
    return seen.completed(n_high, estimate_point(seen.metric).range)


def _most_varied(metric: MetricResult) -> Sequence[int]:
    """How many of the missing documents have value 1 if the values vary most."""
    if metric.total is None:
        return ()
    n = metric.n_scored + metric.n_lost
    return (min(max(n // 2 - metric.total, 0), metric.n_lost),)
