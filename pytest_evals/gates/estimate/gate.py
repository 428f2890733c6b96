"""The estimate of a gate: by its keys, of a task's value or of its change; the same of
the tasks of a group, combined."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import islice, product

from pytest_evals.core.gate import Gate
from pytest_evals.core.metric import MetricResult
from pytest_evals.gates.estimate.change import estimate_change
from pytest_evals.gates.estimate.group import combined
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
    NO_BRACKET,
    Bracket,
    ChangeEstimate,
    GateEstimate,
    InvalidGateError,
    compares_limits,
)
from pytest_evals.stats.stratified import enclosing

MOST_TRIED = 100
"""Ways to complete the scores that are all tried."""


def estimate_gate(
    gate: Gate, seen: Observations | GroupObservations
) -> tuple[GateEstimate, Bracket]:
    """The estimate of a gate, and the estimates for the possible values of the
    documents without a score, from the lowest to the highest: none without such
    documents, or if the range of the values, or a cluster, is unknown.

    Raises:
        InvalidGateError: The runs cannot be compared, or the variance is unknown.
    """
    estimate, bracket = _of_documents(gate, seen), NO_BRACKET
    if estimate.n_missing and (gate.bounds or gate.margin):
        with suppress(InvalidGateError):
            bracket = _bracket(gate, seen, estimate)
    if gate.published is None:
        return estimate, bracket
    whole, *others = (
        estimate_published(gate, seen, one) for one in (estimate, *bracket.estimates)
    )
    return whole, bracket._replace(estimates=others)


def _bracket(
    gate: Gate, seen: Observations | GroupObservations, estimate: GateEstimate
) -> Bracket:
    """All estimates, or those between whose limits the limits of all others are.

    Raises:
        InvalidGateError: The possible scores, or these limits, are unknown.
    """
    is_group = isinstance(seen, GroupObservations)
    tasks = [seen] if isinstance(seen, Observations) else [o.seen for o in seen.members]

    def completed(ways: Sequence[Collection[int]]) -> GateEstimate:
        """The estimate with these documents of each task at the highest score."""
        whole = [
            one.completed(high, estimate_point(one.metric).range)
            for one, high in zip(tasks, ways, strict=True)
        ]
        if isinstance(seen, GroupObservations):
            return _of_group(gate, seen.with_tasks(whole))
        return _of_single(gate, whole[0])

    # Limits of a task rise with its scores, so one threshold needs only the extremes.
    if is_group or (len(gate.bounds) > 1 and not gate.cluster):
        ways = [[*islice(one.ways(), MOST_TRIED + 1)] for one in tasks]
        is_counted = all(estimate_point(one.metric).is_share for one in tasks)
        if is_counted and math.prod(map(len, ways)) <= MOST_TRIED:
            return Bracket([*map(completed, product(*ways))], is_complete=True)
    low = completed([()] * len(tasks))
    high = completed([range(one.metric.n_lost) for one in tasks])
    if not is_group or low.spread is None or not compares_limits(gate, estimate):
        return Bracket((low, high))
    ends = enclosing(low.spread, high.spread) if high.spread else None
    if ends is None:
        raise InvalidGateError("the limits with other scores are unknown")
    # Those of a group do not: a score far from the others widens both of them.
    return Bracket((replace(low, spread=ends[0]), replace(high, spread=ends[1])))


def _of_documents(gate: Gate, seen: Observations | GroupObservations) -> GateEstimate:
    if isinstance(seen, GroupObservations):
        return _of_group(gate, seen)
    return _of_single(gate, seen)


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
