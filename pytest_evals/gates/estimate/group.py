"""The estimate of a group: a weighted mean of its tasks' metrics or changes.

Tasks are independent samples: strata, if their scores are in a known range. The
variance of other sums is that of the tasks, weighted by the squared weights.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import NamedTuple

from pytest_evals.core.gate import Gate, Unit
from pytest_evals.core.metric import MetricResult
from pytest_evals.core.reference import Find
from pytest_evals.core.result import GroupResult, TaskResult
from pytest_evals.gates.check import NO_GROUP_LABELS
from pytest_evals.gates.documents import InvalidGateError
from pytest_evals.gates.estimate.change import estimate_change
from pytest_evals.gates.estimate.estimate import ChangeEstimate, GateEstimate, Value
from pytest_evals.gates.estimate.value import (
    estimate_point,
    estimate_value,
    has_limits,
)
from pytest_evals.gates.formatting import missing_count
from pytest_evals.stats.independent import WeightedTerm, normal_sum, weighted_sum
from pytest_evals.stats.interval_methods import (
    ExactValue,
    IntervalEstimate,
    NormalEstimate,
)
from pytest_evals.stats.paired_proportions import PairedProportions


class Member(NamedTuple):
    """A task of a group.

    Args:
        task: Its result.
        metric: The gate's metric.
        weight: Its weight; all weights add up to 1.
        of_all: Its weight if documents without a score counted.
    """

    task: TaskResult
    metric: MetricResult
    weight: Fraction
    of_all: Fraction

    @property
    def name(self) -> str:
        """The task's name."""
        return self.task.task.name


def members_of(gate: Gate, metric: MetricResult, result: GroupResult) -> list[Member]:
    """The tasks that have the metric, each once. If a group includes a task several
    times, its weight is multiplied accordingly.

    Raises:
        InvalidGateError: A task was run without a single score, or human labels correct
            the metric of a task.
    """
    for task in result.tasks:
        if _has_no_score(task, metric.key):
            counts = missing_count(task.n_errored, task.n_unscored)
            raise InvalidGateError(f"no document has a score{counts}").of_task(
                task.task.name
            )
    found = [
        (task, one)
        for task in result.tasks
        for one in task.metrics
        if one.key == metric.key and one.n_scored
    ]
    for task, one in found:
        if one.how is not None and one.how.labels is not None:
            raise InvalidGateError(NO_GROUP_LABELS).of_task(task.task.name)
    rule = next(r for r in result.group.aggregates if r.metric == gate.metric)
    members: dict[str, Member] = {}
    for task, one in found:
        n_missing = one.n_errored + one.n_unscored
        size = task.sample_len
        weight = Fraction(size if rule.weighted else 1)
        of_all = Fraction(size + n_missing if rule.weighted else 1)
        known = members.get(task.task.name)
        if known is not None:
            weight, of_all = weight + known.weight, of_all + known.of_all
        members[task.task.name] = Member(task, one, weight, of_all)
    return _normalised([*members.values()])


def _has_no_score(task: TaskResult, key: str) -> bool:
    """Whether a task that would have the metric has no score."""
    mine = [one for one in task.metrics if one.key == key]
    if mine:
        return not any(one.n_scored for one in mine) and task.n_selected > 0
    return not task.sample_len and task.n_selected > 0


def _normalised(members: Sequence[Member]) -> list[Member]:
    total = sum(member.weight for member in members)
    of_all = sum(member.of_all for member in members)
    return [
        member._replace(weight=member.weight / total, of_all=member.of_all / of_all)
        for member in members
    ]


def estimate_group(
    gate: Gate, metric: MetricResult, members: Sequence[Member]
) -> GateEstimate:
    """The weighted mean of the tasks' metrics.

    Args:
        metric: The group's metric.

    Raises:
        InvalidGateError: The variance of a task is unknown.
    """
    points = [estimate_point(member.metric) for member in members]
    point = GateEstimate(
        value=_mean([m.weight for m in members], [p.value for p in points]),
        n=metric.n_scored,
        count=metric.total,
        n_errored=metric.n_errored,
        n_unscored=metric.n_unscored,
        range=_common([one.range for one in points]),
    )
    if point.n_missing:
        ends = _end_values(members, points)
        if ends is not None:
            extremes = tuple(GateEstimate(value=end) for end in ends)
            point = replace(point, missing=extremes)
    found = _members(gate, members)
    if found is None:
        return point
    spread = weighted_sum(
        [
            WeightedTerm(_natural_spread(one), float(member.weight), one.n)
            for one, member in zip(found, members, strict=True)
        ]
    )
    if isinstance(spread, ExactValue) and gate.over == "population":
        raise InvalidGateError(
            f"{metric.key} is the same in all documents of each task"
        )
    whole = replace(
        point,
        spread=replace(spread, value=float(point.value)),
        method=f"{len(members)} tasks combined",
        notes=_notes([member.name for member in members], found),
    )
    if point.missing is None:
        return replace(whole, missing=None)
    ends = (point.missing[0].value, point.missing[-1].value)
    return replace(whole, missing=_missing(whole, members, found, ends))


def _common(ranges: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The range of a mean of numbers in these ranges."""
    lows, highs = zip(*ranges, strict=True)
    return (min(lows), max(highs))


def _members(gate: Gate, members: Sequence[Member]) -> list[GateEstimate] | None:
    """The tasks' estimates; ``None`` if the gate compares the number only."""
    estimates = []
    for member in members:
        try:
            estimates.append(estimate_value(gate, member.metric, member.task))
        except InvalidGateError as error:
            raise error.of_task(member.name) from error
    if has_limits(gate) or all(one.spread is not None for one in estimates):
        return estimates
    return None


def _natural_spread(estimate: GateEstimate) -> IntervalEstimate:
    """On the natural scale: perplexities are averaged, not their logarithms.

    By the delta method.
    """
    assert estimate.spread is not None
    if estimate.scale == "plain":
        return estimate.spread
    value = slope = float(estimate.value)
    if isinstance(estimate, ChangeEstimate):
        value, slope = float(estimate.now - estimate.before), float(estimate.now)
    return NormalEstimate(value, slope * estimate.spread.stderr, estimate.n - 1)


def _end_values(
    members: Sequence[Member], points: Sequence[GateEstimate]
) -> tuple[Value, ...] | None:
    """The group's metric with all documents without a score wrong, and correct."""
    ends = []
    for point in points:
        if not point.n_missing:
            ends.append((point.value, point.value))
        elif point.missing is None:
            return None
        else:
            ends.append((point.missing[0].value, point.missing[-1].value))
    weights = [member.of_all for member in members]
    return tuple(_mean(weights, side) for side in zip(*ends, strict=True))


def _missing(
    whole: GateEstimate,
    members: Sequence[Member],
    found: Sequence[GateEstimate],
    ends: Sequence[Value],
) -> tuple[GateEstimate, ...] | None:
    """The metric at its extremes; if the sum is treated as normal, each with the
    largest and the smallest possible standard error and degrees of freedom."""
    most, least, sides = [], [], []
    for member, one in zip(members, found, strict=True):
        possible = one.missing if one.n_missing else (one,)
        if not possible:
            return None
        n = one.n + one.n_missing
        parts = [
            WeightedTerm(_natural_spread(p), float(member.of_all), n) for p in possible
        ]
        sides.append((parts[0], parts[-1]))
        parts.sort(key=_stderr)
        least.append(parts[0])
        most.append(parts[-1]._replace(n=one.n))
    if not isinstance(whole.spread, NormalEstimate):
        return tuple(
            replace(whole, value=end, spread=weighted_sum(side))
            for end, side in zip(ends, zip(*sides, strict=True), strict=True)
        )
    freedom = [max(1, part.n - 1) for part in most], [part.n - 1 for part in least]
    spreads = []
    for parts, df in ((most, min(freedom[0])), (least, sum(freedom[1]))):
        spread = normal_sum(parts)
        if isinstance(spread, NormalEstimate):
            spread = replace(spread, df=float(df))
        spreads.append(spread)
    return tuple(
        replace(whole, value=end, spread=replace(spread, value=float(end)))
        for spread in spreads
        for end in ends
    )


def _stderr(part: WeightedTerm) -> float:
    return normal_sum([part]).stderr


def _notes(names: Sequence[str], estimates: Sequence[GateEstimate]) -> tuple[str, ...]:
    """The notes of each task, prefixed with its name."""
    return tuple(
        f"{name}: {note}"
        for name, one in zip(names, estimates, strict=True)
        for note in one.notes
    )


def estimate_group_change(
    gate: Gate, metric: MetricResult, members: Sequence[Member], find: Find
) -> tuple[ChangeEstimate, list[ChangeEstimate]]:
    """The weighted mean of the tasks' changes, and these changes.

    Raises:
        InvalidGateError: A task cannot be compared.
    """
    changes = []
    for member in members:
        try:
            reference = find(gate.baseline, member.name)
            one, _ = estimate_change(gate, member.metric, member.task, reference)
        except InvalidGateError as error:
            raise error.of_task(member.name) from error
        changes.append(one)
    whole = replace(
        combined_change(
            [member.name for member in members],
            changes,
            [member.weight for member in members],
        ),
        n_errored=metric.n_errored,
        n_unscored=metric.n_unscored,
    )
    if whole.n_missing:
        whole = replace(whole, missing=_missing_changes(members, changes, whole))
    return whole, changes


def combined_change(
    names: Sequence[str],
    changes: Sequence[ChangeEstimate],
    weights: Sequence[Fraction],
) -> ChangeEstimate:
    """The weighted mean of the changes of several tasks.

    Args:
        names: The tasks.
        changes: Their changes.
        weights: Their weights, which add up to 1.
    """
    parts = [
        WeightedTerm(_natural_spread(one), float(weight), one.n)
        for weight, one in zip(weights, changes, strict=True)
    ]
    before = _mean(weights, [one.before for one in changes])
    now = _mean(weights, [one.now for one in changes])
    spread = weighted_sum(parts)
    units: set[Unit] = {one.unit for one in changes}
    unit = units.pop() if len(units) == 1 else "plain"
    shares = [one.shares for one in changes if one.shares is not None]
    n = sum(one.n for one in changes)
    counted = None
    if len(shares) == len(changes):
        counted = PairedProportions(
            sum(s.gained for s in shares), sum(s.lost for s in shares), n
        )
    exact = isinstance(before, Fraction) and isinstance(now, Fraction)
    return ChangeEstimate(
        value=now - before if exact else spread.value,
        n=n,
        before=before,
        now=now,
        spread=spread,
        method=f"paired, {len(changes)} tasks combined",
        notes=_notes(names, changes),
        shares=counted,
        unit="plain" if unit == "percent" else unit,
        range=_common([one.range for one in changes]),
    )


def _missing_changes(
    members: Sequence[Member], found: Sequence[ChangeEstimate], here: ChangeEstimate
) -> tuple[ChangeEstimate, ...] | None:
    """The change with the documents without a score at their extremes; if the sum is
    treated as normal, each with the largest and the smallest possible standard
    error."""
    possible: list[Sequence[ChangeEstimate]] = []
    for one in found:
        ends = one.missing if one.n_missing else (one,)
        if not ends:
            return None
        possible.append([end for end in ends if isinstance(end, ChangeEstimate)])
    weights = [member.of_all for member in members]
    names = [member.name for member in members]
    if isinstance(here.spread, NormalEstimate):
        cases = [
            [
                _with_spread(ends[side], extreme(ends, key=_stderr_of))
                for ends in possible
            ]
            for side, extreme in product((0, -1), (min, max))
        ]
    else:
        cases = [[ends[side] for ends in possible] for side in (0, -1)]
    return tuple(combined_change(names, changes, weights) for changes in cases)


def _stderr_of(change: ChangeEstimate) -> float:
    return _stderr(WeightedTerm(_natural_spread(change), 1.0, change.n))


def _with_spread(change: ChangeEstimate, other: ChangeEstimate) -> ChangeEstimate:
    """The change of one estimate with the standard error of the other."""
    assert change.spread is not None
    spread = normal_sum([WeightedTerm(_natural_spread(other), 1.0, other.n)])
    value = _natural_spread(change).value
    return replace(change, spread=replace(spread, value=value), scale="plain")


def _mean(weights: Sequence[Fraction], values: Sequence[Value]) -> Value:
    """Exact if all values are."""
    if all(isinstance(value, Fraction) for value in values):
        pairs = zip(weights, values, strict=True)
        return sum((w * Fraction(v) for w, v in pairs), Fraction(0))
    return math.fsum(float(w) * float(v) for w, v in zip(weights, values, strict=True))
