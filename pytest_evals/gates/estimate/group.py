"""The estimate of a group: a weighted mean of its tasks' metrics or changes.

Tasks are independent samples: strata, if their scores are in a known range. The
variance of other sums is that of the tasks, weighted by the squared weights.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

from pytest_evals.core.gate import Gate, Unit
from pytest_evals.gates.observations import Member
from pytest_evals.gates.terms import (
    ChangeEstimate,
    GateEstimate,
    InvalidGateError,
    Value,
)
from pytest_evals.stats.independent import WeightedTerm, normal_sum, weighted_sum
from pytest_evals.stats.interval_methods import (
    ExactValue,
    IntervalEstimate,
    NormalEstimate,
)
from pytest_evals.stats.paired_proportions import PairedProportions


def combined(
    gate: Gate,
    members: Sequence[Member],
    estimates: Sequence[GateEstimate],
    freedom: float | None = None,
) -> GateEstimate:
    """The weighted mean of the tasks' values or changes.

    Args:
        freedom: Degrees of freedom of its standard error, by default Satterthwaite's.

    Raises:
        InvalidGateError: No document of a task differs from another.
    """
    names, weights = [m.seen.task for m in members], [m.weight for m in members]
    changes = [one for one in estimates if isinstance(one, ChangeEstimate)]
    if changes:
        change = combined_change(names, changes, weights)
        return replace(change, spread=_with_freedom(change.spread, freedom))
    whole = GateEstimate(
        value=_mean(weights, [one.value for one in estimates]),
        range=_common(estimates),
    )
    if any(one.spread is None for one in estimates):
        return whole
    spread = weighted_sum(_terms(estimates, weights))
    if isinstance(spread, ExactValue) and gate.over == "population":
        what = f"{members[0].seen.metric.key} is the same in all documents of each task"
        raise InvalidGateError(what)
    return replace(
        whole,
        spread=_with_freedom(replace(spread, value=float(whole.value)), freedom),
        method=f"{len(members)} tasks combined",
        notes=_notes(names, estimates),
    )


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
    before = _mean(weights, [one.before for one in changes])
    now = _mean(weights, [one.now for one in changes])
    spread = weighted_sum(_terms(changes, weights))
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
        range=_common(changes),
    )


def extremes(
    possible: Sequence[Sequence[GateEstimate]], *, is_normal: bool
) -> Iterator[tuple[list[GateEstimate], float | None]]:
    """Yield the tasks' estimates at their lowest and their highest values. If the sum
    is treated as normal, each with the largest and the smallest standard errors, and
    the degrees of freedom that make it larger or smaller still.

    Args:
        possible: The estimates of each task, from the lowest to the highest value.
    """
    for side in (0, -1):
        if not is_normal:
            yield [ones[side] for ones in possible], None
            continue
        for extreme, total in ((max, min), (min, sum)):
            pairs = [(ones[side], extreme(ones, key=_stderr)) for ones in possible]
            freedom = total(max(1, one.n - 1) for _, one in pairs)
            yield [_with_spread(*pair) for pair in pairs], float(freedom)


def _with_freedom(
    spread: IntervalEstimate | None, freedom: float | None
) -> IntervalEstimate | None:
    if freedom is None or not isinstance(spread, NormalEstimate):
        return spread
    return replace(spread, df=freedom)


def _terms(
    estimates: Sequence[GateEstimate], weights: Sequence[Fraction]
) -> list[WeightedTerm]:
    return [
        WeightedTerm(_natural_spread(one), float(weight), one.n)
        for one, weight in zip(estimates, weights, strict=True)
    ]


def _common(estimates: Sequence[GateEstimate]) -> tuple[float, float]:
    """The range of a mean of numbers in these ranges."""
    lows, highs = zip(*(one.range for one in estimates), strict=True)
    return (min(lows), max(highs))


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


def _stderr(estimate: GateEstimate) -> float:
    return normal_sum(_terms([estimate], [Fraction(1)])).stderr


def _with_spread(estimate: GateEstimate, other: GateEstimate) -> GateEstimate:
    """The estimate with the standard error of another."""
    spread = normal_sum(_terms([other], [Fraction(1)]))
    value = _natural_spread(estimate).value
    return replace(estimate, spread=replace(spread, value=value), scale="plain")


def _notes(names: Sequence[str], estimates: Sequence[GateEstimate]) -> tuple[str, ...]:
    """The notes of each task, prefixed with its name."""
    return tuple(
        f"{name}: {note}"
        for name, one in zip(names, estimates, strict=True)
        for note in one.notes
    )


def _mean(weights: Sequence[Fraction], values: Sequence[Value]) -> Value:
    """Exact if all values are."""
    if all(isinstance(value, Fraction) for value in values):
        pairs = zip(weights, values, strict=True)
        return sum((w * Fraction(v) for w, v in pairs), Fraction(0))
    return math.fsum(float(w) * float(v) for w, v in zip(weights, values, strict=True))
