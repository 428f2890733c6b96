"""The estimate of a group: a weighted mean of its tasks' numbers or changes.

Its variance is the sum of theirs by the squares of the weights: tasks are independent
samples.
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
from pytest_evals.gates.check import weights_fault
from pytest_evals.gates.documents import InvalidGateError
from pytest_evals.gates.estimate.change import estimate_change
from pytest_evals.gates.estimate.estimate import ChangeEstimate, GateEstimate, Value
from pytest_evals.gates.estimate.value import (
    estimate_point,
    estimate_value,
    has_limits,
)
from pytest_evals.gates.figures import missing_count
from pytest_evals.stats.interval_methods import (
    ExactValue,
    IntervalEstimate,
    NormalEstimate,
)
from pytest_evals.stats.paired_proportions import PairedProportions
from pytest_evals.stats.weighted_sum import WeightedTerm, weighted_sum


class Member(NamedTuple):
    """A task of a group.

    Args:
        task: Its result.
        metric: The gate's metric.
        weight: Its share of the group's number; all weights add up to 1.
        of_all: The same if documents without a score counted.
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
    """The tasks that have the metric, each once. A task that the group includes several
    times has so many times its weight.

    Raises:
        InvalidGateError: The gate's weights do not match the tasks, or a task was run
            and none of its documents has a score.
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
    fault = weights_fault(gate, [task.task.name for task, _ in found])
    if fault:
        raise InvalidGateError(fault)
    members: dict[str, Member] = {}
    for task, one in found:
        n_missing = one.n_errored + one.n_unscored
        weight = _weight(gate, result, task, task.sample_len)
        of_all = _weight(gate, result, task, task.sample_len + n_missing)
        known = members.get(task.task.name)
        if known is not None and not isinstance(gate.weights, tuple):
            weight, of_all = weight + known.weight, of_all + known.of_all
        members[task.task.name] = Member(task, one, weight, of_all)
    return _normalised([*members.values()])


def _has_no_score(task: TaskResult, key: str) -> bool:
    """Whether no document of a task that would have the metric has a score."""
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


def _weight(gate: Gate, result: GroupResult, task: TaskResult, size: int) -> Fraction:
    if isinstance(gate.weights, tuple):
        return Fraction(dict(gate.weights)[task.task.name])
    rule = next(r for r in result.group.aggregates if r.metric == gate.metric)
    by_size = rule.weighted if gate.weights == "" else gate.weights == "size"
    return Fraction(size if by_size else 1)


def estimate_group(
    gate: Gate, metric: MetricResult, members: Sequence[Member]
) -> GateEstimate:
    """The weighted mean of the tasks' numbers.

    Args:
        gate: The gate.
        metric: The group's own number.
        members: Its tasks.

    Raises:
        InvalidGateError: Nothing is known of a task's variance.
    """
    points = [estimate_point(member.metric) for member in members]
    point = GateEstimate(
        value=_mean([m.weight for m in members], [p.value for p in points]),
        n=metric.n_scored,
        count=metric.total if not gate.weights else None,
        n_errored=metric.n_errored,
        n_unscored=metric.n_unscored,
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
        notes=_notes(members, found),
    )
    if point.missing is None:
        return replace(whole, missing=None)
    ends = (point.missing[0].value, point.missing[-1].value)
    return replace(whole, missing=_missing(whole, members, found, ends))


def _members(gate: Gate, members: Sequence[Member]) -> list[GateEstimate] | None:
    """The tasks' estimates; ``None`` if the gate compares the number only."""
    found = []
    for member in members:
        try:
            found.append(estimate_value(gate, member.metric, member.task))
        except InvalidGateError as error:
            raise error.of_task(member.name) from error
    if has_limits(gate) or all(one.spread is not None for one in found):
        return found
    return None


def _natural_spread(found: GateEstimate) -> IntervalEstimate:
    """On the scale of the number: perplexities are averaged, and not their logarithms.

    By the delta method.
    """
    assert found.spread is not None
    if found.scale == "plain":
        return found.spread
    value = slope = float(found.value)
    if isinstance(found, ChangeEstimate):
        value, slope = float(found.now - found.before), float(found.now)
    return NormalEstimate(value, slope * found.spread.stderr, found.n - 1)


def _end_values(
    members: Sequence[Member], points: Sequence[GateEstimate]
) -> tuple[Value, ...] | None:
    """The group's number with all documents without a score wrong, and correct."""
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
    """The number at its extremes, each with the largest and the smallest possible
    standard error."""
    most, least = [], []
    for member, one in zip(members, found, strict=True):
        possible = one.missing if one.n_missing else (one,)
        if not possible:
            return None
        n = one.n + one.n_missing
        parts = [
            WeightedTerm(_natural_spread(p), float(member.of_all), n) for p in possible
        ]
        parts.sort(key=_stderr)
        least.append(parts[0])
        most.append(parts[-1]._replace(n=one.n))
    spreads = [weighted_sum(parts) for parts in (most, least)]
    return tuple(
        replace(whole, value=end, spread=replace(spread, value=float(end)))
        for spread in spreads
        for end in ends
    )


def _stderr(part: WeightedTerm) -> float:
    return weighted_sum([part]).stderr


def _notes(members: Sequence[Member], found: Sequence[GateEstimate]) -> tuple[str, ...]:
    """The remarks on each task's number, with its name in front."""
    return tuple(
        f"{member.name}: {note}"
        for member, one in zip(members, found, strict=True)
        for note in one.notes
    )


def estimate_group_change(
    gate: Gate, metric: MetricResult, members: Sequence[Member], find: Find
) -> tuple[ChangeEstimate, list[ChangeEstimate]]:
    """The weighted mean of the tasks' changes, and these.

    Raises:
        InvalidGateError: A task cannot be compared.
    """
    found = []
    for member in members:
        try:
            reference = find(gate.baseline, member.name)
            one, _ = estimate_change(gate, member.metric, member.task, reference)
        except InvalidGateError as error:
            raise error.of_task(member.name) from error
        found.append(one)
    whole = replace(
        _together(members, found, [member.weight for member in members]),
        n_errored=metric.n_errored,
        n_unscored=metric.n_unscored,
    )
    if whole.n_missing:
        whole = replace(whole, missing=_missing_changes(members, found))
    return whole, found


def _together(
    members: Sequence[Member],
    found: Sequence[ChangeEstimate],
    weights: Sequence[Fraction],
) -> ChangeEstimate:
    parts = [
        WeightedTerm(_natural_spread(one), float(weight), one.n)
        for weight, one in zip(weights, found, strict=True)
    ]
    before = _mean(weights, [one.before for one in found])
    now = _mean(weights, [one.now for one in found])
    spread = weighted_sum(parts)
    units: set[Unit] = {one.unit for one in found}
    unit = units.pop() if len(units) == 1 else "plain"
    shares = [one.shares for one in found if one.shares is not None]
    n = sum(one.n for one in found)
    counted = None
    if len(shares) == len(found):
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
        method=f"paired, {len(found)} tasks combined",
        notes=_notes(members, found),
        shares=counted,
        unit="plain" if unit == "percent" else unit,
    )


def _missing_changes(
    members: Sequence[Member], found: Sequence[ChangeEstimate]
) -> tuple[ChangeEstimate, ...] | None:
    """The change with the documents without a score at their extremes, each with the
    largest possible standard error and with the smallest."""
    possible: list[Sequence[ChangeEstimate]] = []
    for one in found:
        ends = one.missing if one.n_missing else (one,)
        if not ends:
            return None
        possible.append([end for end in ends if isinstance(end, ChangeEstimate)])
    weights = [member.of_all for member in members]
    whole = []
    for side, extreme in product((0, -1), (min, max)):
        changes = [
            _with_spread(ends[side], extreme(ends, key=_stderr_of)) for ends in possible
        ]
        whole.append(_together(members, changes, weights))
    return tuple(whole)


def _stderr_of(found: ChangeEstimate) -> float:
    return _stderr(WeightedTerm(_natural_spread(found), 1.0, found.n))


def _with_spread(found: ChangeEstimate, other: ChangeEstimate) -> ChangeEstimate:
    """The change of one with the standard error of the other."""
    assert found.spread is not None
    spread = weighted_sum([WeightedTerm(_natural_spread(other), 1.0, other.n)])
    value = _natural_spread(found).value
    return replace(found, spread=replace(spread, value=value), scale="plain")


def _mean(weights: Sequence[Fraction], values: Sequence[Value]) -> Value:
    """Exact if all values are."""
    if all(isinstance(value, Fraction) for value in values):
        pairs = zip(weights, values, strict=True)
        return sum((w * Fraction(v) for w, v in pairs), Fraction(0))
    return math.fsum(float(w) * float(v) for w, v in zip(weights, values, strict=True))
