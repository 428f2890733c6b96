"""The estimate of a group: a weighted mean of its tasks' metrics or changes.

Tasks are independent samples: strata, if their scores are in a known range. The
variance of other sums is that of the tasks, weighted by the squared weights.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
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
from pytest_evals.stats.independent import WeightedTerm, weighted_sum
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
) -> GateEstimate:
    """The weighted mean of the tasks' values or changes.

    Raises:
        InvalidGateError: No document of a task differs from another.
    """
    names, weights = [m.seen.task for m in members], [m.weight for m in members]
    changes = [one for one in estimates if isinstance(one, ChangeEstimate)]
    if changes:
        return combined_change(names, changes, weights)
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
        spread=spread,
        method=f"{len(members)} tasks combined",
        notes=_notes(names, estimates),
    )


def combined_change(
    names: Sequence[str],
    changes: Sequence[ChangeEstimate],
    weights: Sequence[Fraction],
) -> ChangeEstimate:
    """The weighted mean of the changes of several tasks."""
    before = _mean(weights, [one.before for one in changes])
    now = _mean(weights, [one.now for one in changes])
    spread = weighted_sum(_terms(changes, weights))
    units: set[Unit] = {one.unit for one in changes}
    shares = [one.shares for one in changes if one.shares is not None]
    n = sum(one.n for one in changes)
    gained, lost = (sum(one[i] for one in shares) for i in (0, 1))
    counted = (
        PairedProportions(gained, lost, n) if len(shares) == len(changes) else None
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
        unit="points" if units == {"points"} else "plain",
        range=_common(changes),
    )


def _terms(
    estimates: Sequence[GateEstimate], weights: Sequence[Fraction]
) -> list[WeightedTerm]:
    return [
        WeightedTerm(natural_spread(one), float(weight), one.n)
        for one, weight in zip(estimates, weights, strict=True)
    ]


def _common(estimates: Sequence[GateEstimate]) -> tuple[float, float]:
    """The range of a mean of numbers in these ranges."""
    lows, highs = zip(*(one.range for one in estimates), strict=True)
    return (min(lows), max(highs))


def natural_spread(estimate: GateEstimate) -> IntervalEstimate:
    """The uncertainty on the scale of the number, for perplexities by the delta method:
    they are averaged, not their logarithms."""
    assert estimate.spread is not None
    if estimate.scale == "plain":
        return estimate.spread
    value = slope = float(estimate.value)
    if isinstance(estimate, ChangeEstimate):
        value, slope = float(estimate.now - estimate.before), float(estimate.now)
    return NormalEstimate(value, slope * estimate.spread.stderr, estimate.n - 1)


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
