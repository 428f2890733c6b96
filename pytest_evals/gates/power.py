"""Probabilities that a gate fails and that it passes, before the run.

There is one calculation: a :data:`Rule` gives both probabilities for a number of
documents and a true drop. Each kind of gate has the rule of the limits that decide it.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from statistics import NormalDist
from typing import Any, NamedTuple

from pytest_evals.core.gate import Gate
from pytest_evals.gates.terms import has_limits
from pytest_evals.stats.independent import (
    IndependentDifference,
    StratifiedMean,
    stratified_counts,
)
from pytest_evals.stats.interval_methods import (
    ConfidenceInterval,
    ExactValue,
    IntervalEstimate,
    Proportion,
    beta_tails,
    first_that,
    root,
)
from pytest_evals.stats.paired_proportions import PairedProportions

POWER = 0.8
USUAL_FLIPS = 0.05  # assumed flip rate, if unknown
MOST_DOCUMENTS = 10_000_000
_ROUNDING = 1e-9
_STEP = 8  # numbers of documents between which edges of rules are interpolated
_MOST_EDGES = 200
"""Numbers of flips whose edges are computed; those between are interpolated."""
_TAIL = 1e-6
"""Tail probability of the numbers of flips that is not summed, on each side."""

Rule = Callable[[int, float], tuple[float, float]]
"""Documents and true drop → probabilities that the gate fails and that it passes."""


class Stratum(NamedTuple):
    """A task of a group. ``last``: its value in the earlier run, if known."""

    n: int
    weight: float
    last: float | None = None


def strata_of(spread: IntervalEstimate) -> tuple[Stratum, ...]:
    """The tasks of a group that was judged; empty for a task."""
    if not isinstance(spread, StratifiedMean):
        return ()
    return tuple(
        Stratum(round(math.fsum(n for *_, n in one.units)), weight, one.value)
        for one, weight in zip(spread.strata, spread.weights, strict=True)
    )


@lru_cache(maxsize=64)
def documents_needed(rule: Rule, *, passes: bool = True) -> int | None:
    """The number of documents with which a gate passes (or fails) with the usual power
    if the number stays: the one count of plans and of reports. ``None`` if none is
    enough."""
    at = 1 if passes else 0
    return first_that(lambda n: rule(n, 0.0)[at] >= POWER, 1, MOST_DOCUMENTS, 1)


def flips_text(flips: float, source: str = " (assumed)") -> str:
    """The assumption of a count of documents of a paired gate."""
    return f"if {100 * flips:.2g}% of answers flip between runs{source}"


def rule_of(
    gate: Gate, share: float | None, flips: float, strata: Sequence[Stratum]
) -> Rule | None:
    """The rule of a gate; ``None`` if chance plays no part in it."""
    if gate.published is not None:
        return _published_rule(gate, share or 0.0)
    is_count = len(strata) < 2 and not has_limits(gate)
    strata = strata if len(strata) > 1 and gate.over == "population" else ()
    if gate.margin is None:
        return _floor_rule(gate, share, flips, strata, is_count=is_count)
    allowed = gate.margin.allowed(1.0 if share is None else share)
    if allowed <= 0 or flips <= 0:
        return None
    if gate.over == "population":
        tasks = tuple(one._replace(last=None) for one in strata)
        return paired_rule(allowed, flips, 1 - gate.confidence, tasks)

    def spread(n: int, drop: float) -> float:
        """Of the change of a proportion on the same documents."""
        return math.sqrt((max(flips, abs(drop)) - drop * drop) / n)

    return _normal_rule(gate, [(-allowed, True)], 0.0, spread, is_count=is_count)


def _floor_rule(
    gate: Gate,
    share: float | None,
    flips: float,
    strata: Sequence[Stratum],
    *,
    is_count: bool,
) -> Rule:
    bound, alpha = gate.bounds[0], 1 - gate.confidence
    rises = bound.is_lower
    # Upper thresholds are lower thresholds of the complementary proportion.
    edge = float(bound.value) if rises else 1 - float(bound.value)
    start = edge if share is None else share if rises else 1 - share
    if gate.over != "population":
        sides = [(edge, True)]
        if len(gate.bounds) > 1:
            sides.append((float(gate.bounds[1].value), False))

        def spread(n: int, _: float) -> float:
            return math.sqrt(flips / 2 / n)

        return _normal_rule(gate, sides, start, spread, is_count=is_count)
    if not strata:
        return lambda n, drop: _binomial(n, edge, start - drop, alpha)
    if not rises:
        strata = [
            one._replace(last=None if one.last is None else 1 - one.last)
            for one in strata
        ]
    return _group_rule(edge, start, alpha, strata)


def _normal_rule(
    gate: Gate,
    sides: Sequence[tuple[float, bool]],
    start: float,
    stderr: Callable[[int, float], float],
    *,
    is_count: bool,
) -> Rule:
    """For a number that is compared, or over reruns. ``is_count``: it is a number of
    documents, whose steps the normal approximation is corrected for."""
    z = NormalDist().inv_cdf(gate.confidence) if has_limits(gate) else 0.0

    def chances(n: int, drop: float) -> tuple[float, float]:
        sd, reach = stderr(n, drop) or 1 / n, z * stderr(n, 0.0)
        edges = [(_between(e, n, low) if is_count else e, low) for e, low in sides]
        return normal_chances(edges, start - drop, sd, reach)

    return chances


def _between(edge: float, n: int, is_lower: bool) -> float:
    """The middle between the last share of ``n`` documents that holds and the first
    that does not."""
    if is_lower:
        return (math.ceil(edge * n - _ROUNDING) - 0.5) / n
    return (math.floor(edge * n + _ROUNDING) + 0.5) / n


def documents_for(alpha: float, share: float) -> int:
    """Return the smallest number of documents after which, if none of them differed,
    less than this share of all differ, at one-sided level alpha: (1 - share)^n."""
    return math.ceil(math.log(alpha) / math.log1p(-share) - _ROUNDING)


def chance_below(threshold: float, mean: float, stderr: float) -> float:
    """Return the probability that an estimate is below a threshold."""
    if stderr == 0:
        return float(mean < threshold)
    return NormalDist().cdf((threshold - mean) / stderr)


def normal_chances(
    sides: Sequence[tuple[float, bool]], mean: float, stderr: float, reach: float = 0.0
) -> tuple[float, float]:
    """Probabilities that a normal number fails and that it passes. ``sides``: each
    threshold, and whether it is a lower one; at most one of them fails. ``reach``:
    distance of its confidence limits; 0 if the number is compared."""
    fails = holds_not = 0.0
    for edge, is_lower in sides:
        sign = 1 if is_lower else -1
        fails += chance_below(sign * edge - reach, sign * mean, stderr)
        holds_not += chance_below(sign * edge + reach, sign * mean, stderr)
    return fails, max(0.0, 1 - holds_not)


def _binomial(n: int, edge: float, share: float, alpha: float) -> tuple[float, float]:
    """Exact limits of a proportion."""

    def fails(edge: float, share: float) -> float:
        # The largest number that fails is 1 less.
        most = bisect_left(range(n + 1), True, key=lambda k: _cdf(k, n, edge) > alpha)
        return _cdf(most - 1, n, share)

    return fails(edge, share), fails(1 - edge, 1 - share)


def _cdf(k: int, n: int, share: float) -> float:
    """P(X <= k) of a binomial number."""
    return float(k >= n) if not 0 <= k < n else beta_tails(k + 1, n - k, share)[1]


def _cdfs(k: Any, n: Any, share: float) -> Any:
    import numpy as np
    from scipy.special import betaincc

    inside = (k >= 0) & (k < n)
    tails = betaincc(np.where(inside, k + 1, 1), np.where(inside, n - k, 1), share)
    return np.where(inside, tails, k >= n)


@lru_cache(maxsize=64)
def paired_rule(
    margin: float, flips: float, alpha: float, strata: tuple[Stratum, ...] = ()
) -> Rule:
    """A change of correct and wrong answers: Tango's limits; of a group, those of its
    tasks as strata. Summed over the flips and the losses among them, which are
    binomial."""

    def change(n: int, changed: float, lost: float) -> IntervalEstimate:
        if not strata:
            return PairedProportions(changed - lost, lost, n)
        counts = {-1.0: lost / n, 0.0: 1 - changed / n, 1.0: (changed - lost) / n}
        return _as_strata(strata, n, [counts] * len(strata))

    @cache
    def edges(n: int, changed: int) -> tuple[float, float]:
        """For a number of flips: the losses from which on it fails, and up to which it
        passes; fractional."""
        fails = _root(lambda k: alpha - change(n, changed, k).p_less(-margin), changed)
        passes = _root(
            lambda k: change(n, changed, k).p_greater(-margin) - alpha, changed
        )
        return (
            changed + 1.0 if fails is None else fails,
            changed if passes is None else passes,
        )

    def chances(n: int, drop: float) -> tuple[float, float]:
        import numpy as np

        rate = min(1.0, max(flips, drop))
        worse = (rate + drop) / (2 * rate)
        low, high = (
            bisect_left(range(n), q, key=lambda k: _cdf(k, n, rate))
            for q in (_TAIL, 1 - _TAIL)
        )
        changed = np.arange(low, high + 1)
        # Edges change slowly with the flips; those of strata are slow to compute.
        step = max(1, (high - low) // _MOST_EDGES)
        if strata:
            step = max(_STEP, (high - low) // 8)
        nodes = [*range(low - low % step, high + step, step)]
        known = np.array([edges(n, min(one, n)) for one in nodes])
        failing, passing = (np.interp(changed, nodes, side) for side in known.T)
        weights = np.diff(_cdfs(np.arange(low - 1, high + 1), n, rate))
        fails = 1 - _cdfs(np.ceil(failing - _ROUNDING) - 1, changed, worse)
        passes = _cdfs(np.floor(passing + _ROUNDING), changed, worse)
        return float(weights @ fails), float(weights @ passes)

    return chances


def _root(rising: Callable[[float], float], most: float) -> float | None:
    """Where a function of a number of documents crosses 0: -1 if it is above 0
    throughout, ``None`` if it is below."""
    if rising(0.0) > 0:
        return -1.0
    if rising(most) <= 0:
        return None
    return root(rising, 0.0, most, 1e-6)


def _as_strata(
    strata: Sequence[Stratum], n: int, shares: Sequence[Mapping[float, float]]
) -> IntervalEstimate:
    """The estimate of a group with ``n`` documents. ``shares``: of each task, value →
    its share of the documents."""
    scale = n / sum(one.n for one in strata)
    counts = [
        {value: share * one.n * scale for value, share in each.items()}
        for one, each in zip(strata, shares, strict=True)
    ]
    return stratified_counts(counts, [one.weight for one in strata])


def _group_rule(
    edge: float, last: float, alpha: float, strata: Sequence[Stratum]
) -> Rule:
    """A lower threshold for the mean of several proportions, with the limits of strata.

    The mean's distribution is normal with its first correction for skewness, and one
    for its steps if all documents have the same weight.
    """
    lasts = [last if one.last is None else one.last for one in strata]

    def moved(by: float) -> list[float]:
        return [min(1.0, max(0.0, one + by)) for one in lasts]

    def mean(shares: Sequence[float]) -> float:
        pairs = zip(strata, shares, strict=True)
        return math.fsum(one.weight * share for one, share in pairs)

    @cache
    def edges(n: int) -> tuple[float, float]:
        """The numbers below which it fails, and from which on it passes."""

        def spread(by: float) -> IntervalEstimate:
            return _as_strata(strata, n, [{0.0: 1 - p, 1.0: p} for p in moved(by)])

        fails = _root(lambda by: spread(by - 1).p_less(edge) - alpha, 2.0)
        passes = _root(lambda by: alpha - spread(by - 1).p_greater(edge), 2.0)
        low, high = (
            2.0 if by is None else mean(moved(by - 1)) if by >= 0 else -1.0
            for by in (fails, passes)
        )
        return low, high

    def chances(n: int, drop: float) -> tuple[float, float]:
        shares = moved(-drop)
        scale = n / sum(one.n for one in strata)
        center, variance, third = mean(shares), 0.0, 0.0
        each = [one.weight / (one.n * scale) for one in strata]
        for one, share, weight in zip(strata, shares, each, strict=True):
            noise = one.weight * weight * share * (1 - share)
            variance += noise
            third += weight * noise * (1 - 2 * share)
        step = each[0] if max(each) - min(each) <= _ROUNDING * max(each) else 0.0

        def below(number: float) -> float:
            if step:
                number = (math.ceil(number / step - _ROUNDING) - 0.5) * step
            if variance <= 0:
                return float(center < number)
            z = (number - center) / math.sqrt(variance)
            bend = third / float(variance**1.5) * (z * z - 1) / 6
            chance = NormalDist().cdf(z) - bend * NormalDist().pdf(z)
            return min(1.0, max(0.0, chance))

        fails, passes = edges(n)
        return below(fails), 1 - below(passes)

    return chances


def _published_rule(gate: Gate, share: float) -> Rule:
    """A drop since a published number, by the limits of both (MOVER)."""
    published = gate.published
    assert published is not None
    assert gate.margin is not None
    reference, n_old = float(published.value), published.n
    bar = -gate.margin.allowed(reference)
    old = (
        ExactValue(reference) if n_old is None else Proportion(reference * n_old, n_old)
    )

    @cache
    def edges(n: int) -> tuple[int, int]:
        """The smallest numbers of correct answers that do not fail, and that pass."""

        def limits(correct: int) -> ConfidenceInterval:
            difference = IndependentDifference(Proportion(correct, n), old)
            return difference.interval(gate.confidence)

        every = range(n + 1)
        kept = bisect_left(every, True, key=lambda k: limits(k).high >= bar)
        return kept, bisect_left(every, True, key=lambda k: limits(k).low >= bar)

    def chances(n: int, drop: float) -> tuple[float, float]:
        (kept, passing), true = edges(n), max(0.0, share - drop)
        return _cdf(kept - 1, n, true), 1 - _cdf(passing - 1, n, true)

    return chances


def sample_rule(bar: float, n_whole: int, flips: float, alpha: float) -> Rule:
    """A sample of a finite benchmark, with the limits that its correction allows.
    ``bar``: the smallest allowed change of the benchmark."""
    rule = paired_rule(-bar, flips, alpha, (Stratum(1, 1.0),))

    def chances(n: int, drop: float) -> tuple[float, float]:
        return rule(round(n * n_whole / max(1, n_whole - n)), drop)

    return chances
