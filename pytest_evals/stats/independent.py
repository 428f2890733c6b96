"""Estimates from independent ones: a difference, and a weighted sum.

Means in a known range, such as those of the tasks of a group, are summed as strata by
Gaffke's rule (:mod:`pytest_evals.stats.mean_limits`): the values of each stratum are
around the stratum's mean, and the pseudo-value is that of the stratum in which it
counts most. With one stratum it is the rule for a mean.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import TYPE_CHECKING

from pytest_evals.stats.interval_methods import (
    ConfidenceInterval,
    ExactValue,
    IntervalEstimate,
    NormalEstimate,
    Proportion,
    WidestInterval,
    last_that,
    root,
)
from pytest_evals.stats.mean_limits import (
    MOST_DISTINCT,
    BoundedMean,
    GaffkeLimits,
    binned,
)
from pytest_evals.stats.paired_proportions import PairedProportions

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

_USUAL = 0.95  # confidence of the interval that replaces a zero standard error


@dataclass(frozen=True)
class IndependentDifference:
    """``new - old`` of two independent estimates, from the confidence limits of each.

    MOVER, the method of variance estimates recovery (Zou and Donner 2008, Statistics in
    Medicine 27, 1693-1702): the distance of each limit is the root of the sum of the
    squared distances of both estimates' limits.
    """

    new: IntervalEstimate
    old: IntervalEstimate

    @property
    def value(self) -> float:
        """Return the difference."""
        return self.new.value - self.old.value

    @property
    def stderr(self) -> float:
        """Return the root of the sum of the squared standard errors."""
        return math.hypot(self.new.stderr, self.old.stderr)

    def interval(self, confidence: float) -> ConfidenceInterval:
        """Return both confidence limits, each one-sided at this confidence level."""
        new, old = self.new.interval(confidence), self.old.interval(confidence)
        below = math.hypot(self.new.value - new.low, old.high - self.old.value)
        above = math.hypot(new.high - self.new.value, self.old.value - old.low)
        return ConfidenceInterval(self.value - below, self.value + above)

    def p_less(self, bound: float) -> float:
        """Return the p-value of "the true value is less than the bound"."""
        return _p_value(lambda alpha: self.interval(1 - alpha).high < bound)

    def p_greater(self, bound: float) -> float:
        """Return the p-value of "the true value is greater than the bound"."""
        return _p_value(lambda alpha: self.interval(1 - alpha).low > bound)

    def scaled(self, factor: float) -> IndependentDifference:
        """Return the difference with the new sample larger by this factor."""
        return replace(self, new=self.new.scaled(factor))


def _p_value(is_excluded: Callable[[float], bool]) -> float:
    """Return the smallest alpha at which the limit excludes a bound; 1 if it does not
    even at 0.5."""
    return last_that(is_excluded, 0.5, 0.0) if is_excluded(0.5) else 1.0


def weighted_sum(
    spreads: Sequence[IntervalEstimate], weights: Sequence[float], sizes: Sequence[int]
) -> IntervalEstimate:
    """Estimate the weighted sum of independent estimates; the weights add up to 1.
    ``sizes``: numbers of documents.

    Means in a known range are one stratified mean. Others are treated as normal: the
    variance is the sum of theirs times the squared weights; its degrees of freedom are
    Welch's and Satterthwaite's (1946). A proportion of 0 or 1 shows no variance; it
    gets the variance implied by its one-sided confidence limits.
    """
    found = stratified(spreads, weights)
    if found is not None:
        return found
    pairs = [*zip(weights, spreads, strict=True)]
    value = math.fsum(weight * one.value for weight, one in pairs)
    terms = [(weight * _stderr(one)) ** 2 for weight, one in pairs]
    variance = math.fsum(terms)
    if variance <= 0:
        return ExactValue(value)
    freedoms = [
        one.df if isinstance(one, NormalEstimate) else max(1.0, n - 1.0)
        for one, n in zip(spreads, sizes, strict=True)
    ]
    doubt = math.fsum(t * t / df for t, df in zip(terms, freedoms, strict=True))
    df = variance * variance / doubt if doubt > 0 else math.inf
    return NormalEstimate(value, math.sqrt(variance), df)


def _stderr(spread: IntervalEstimate) -> float:
    if spread.stderr > 0 or isinstance(spread, ExactValue):
        return spread.stderr
    low, high = spread.interval(_USUAL)
    reach = max(spread.value - low, high - spread.value)
    return reach / NormalDist().inv_cdf(_USUAL)


@dataclass(frozen=True)
class StratifiedMean(GaffkeLimits):
    """A weighted sum of independent means or ratios, as an
    :class:`~.interval_methods.IntervalEstimate`.

    At a bound of the sum, each stratum has a mean: its own, shifted by the same number
    in all strata. Its values vary around its own mean, more than seen since that mean
    is fitted. A single unit shows no variation, so it varies around the bound.
    """

    value: float
    stderr: float
    low: float
    high: float
    strata: tuple[BoundedMean, ...]  # the means, all in the same range
    weights: tuple[float, ...]  # (strata,) of each; they add up to 1
    centers: tuple[float, ...] = ()
    """(strata,) numbers that replace the strata's own means, around which values vary;
    empty for these (:func:`enclosing`)."""

    @property
    def n_units(self) -> int:
        """Return the number of distinct units."""
        return sum(one.n_units for one in self.strata)

    @property
    def _centers(self) -> Sequence[float]:
        return self.centers or [one.value for one in self.strata]

    def _means(self, bound: float) -> Numbers:
        """(strata,) their means at this bound."""
        import numpy as np

        values = np.array([one.value for one in self.strata])
        weights, by = np.array(self.weights), self.high - self.low

        def off(by: float) -> float:
            return float(weights @ np.clip(values + by, self.low, self.high)) - bound

        if off(-by) >= 0:
            by = -by
        elif off(by) > 0:
            by = root(off, -by, by, 1e-14 * by)
        return np.clip(np.array(self._centers) + by, self.low, self.high)

    def coefficients(self, bound: float) -> tuple[Numbers, Numbers, Numbers]:
        """Return those of the units, each around the mean of its stratum."""
        import numpy as np

        units, counts, extremes = [], [], []
        for weight, one, center, mean in zip(
            self.weights, self.strata, self._centers, self._means(bound), strict=True
        ):
            sums, sizes, n = one.table
            n_units, scale = float(n.sum()), weight / float(sizes @ n)
            # One mean is not fitted. A plan may have less than one unit.
            freedom = max(0.0, n_units - 1) + 1 / len(self.strata)
            more = math.sqrt(n_units / freedom)
            shift = center - (mean if n_units >= 2 else bound)
            units.append(scale * (shift * sizes + more * (sums - center * sizes)))
            counts.append(n)
            extremes.append(scale * one.extremes(float(mean)))
        every = np.concatenate(units), np.concatenate(counts)
        merged = binned(*every) if len(every[0]) > MOST_DISTINCT else every
        return (*merged, np.concatenate(extremes))

    def scaled(self, factor: float) -> StratifiedMean:
        """Return the sum with the sample of each stratum larger by this factor."""
        return replace(
            self,
            stderr=self.stderr / math.sqrt(factor),
            strata=tuple(one.scaled(factor) for one in self.strata),
        )


def stratified(
    spreads: Sequence[IntervalEstimate], weights: Sequence[float]
) -> StratifiedMean | WidestInterval | None:
    """Estimate a weighted sum; ``None`` if a term is not a mean of values in a known
    range. If values are clustered, the wider of the limits with and without the
    clusters of all terms are used.
    """
    found = [_strata(one) for one in spreads]
    if not all(found):
        return None
    if len({one.kinds for each in found for one in each}) > 1:
        if any(size != 1 for each in found for one in each for _, size in one.kinds):
            return None  # ratios
        low = min(one.low for each in found for one in each)
        high = max(one.high for each in found for one in each)
        kinds = ((low, 1.0), (high, 1.0))
        found = [
            [replace(one, low=low, high=high, kinds=kinds) for one in each]
            for each in found
        ]
    independent, clustered = (
        _weighted([each[i] for each in found], weights) for i in (0, -1)
    )
    if clustered == independent:
        return independent
    return WidestInterval((clustered, independent))


def enclosing(
    low: IntervalEstimate, high: IntervalEstimate
) -> tuple[IntervalEstimate, IntervalEstimate] | None:
    """Return estimates between whose limits are those of all samples between two of the
    same documents; ``None`` if unknown.

    A stratified mean is not monotone in its values: those far from the mean of their
    stratum widen its limits. Coefficients are lowest with the lowest values around the
    highest means.

    Args:
        low: The estimate with the lowest value of each document.
        high: With the highest values.
    """
    if isinstance(low, StratifiedMean) and isinstance(high, StratifiedMean):
        means = [tuple(one.value for one in each.strata) for each in (low, high)]
        return replace(low, centers=means[1]), replace(high, centers=means[0])
    if isinstance(low, WidestInterval) and isinstance(high, WidestInterval):
        pairs = [*map(enclosing, low.methods, high.methods)]
        known = [one for one in pairs if one is not None]
        if len(known) < len(pairs):
            return None
        lowest, highest = zip(*known, strict=True)
        return WidestInterval(lowest), WidestInterval(highest)
    if isinstance(low, NormalEstimate) and isinstance(high, NormalEstimate):
        # Over reruns, the standard error does not depend on the values.
        return (low, high) if replace(low, value=high.value) == high else None
    return None


def stratified_counts(
    strata: Sequence[Mapping[float, float]], weights: Sequence[float]
) -> StratifiedMean:
    """Estimate a weighted sum of means, of which how many documents have each value is
    known. The values are all values of the range's ends, and others."""
    return _weighted([_of_counts(one) for one in strata], weights)


def _weighted(
    strata: Sequence[BoundedMean], weights: Sequence[float]
) -> StratifiedMean:
    pairs = [*zip(weights, strata, strict=True)]
    return StratifiedMean(
        value=math.fsum(weight * one.value for weight, one in pairs),
        stderr=math.hypot(*(weight * one.stderr for weight, one in pairs)),
        low=strata[0].low,
        high=strata[0].high,
        strata=tuple(strata),
        weights=tuple(weights),
    )


def _strata(spread: IntervalEstimate) -> Sequence[BoundedMean]:
    """The mean as a stratum, by several methods from the smallest to the largest
    clusters; empty if it is not one."""
    if isinstance(spread, BoundedMean):
        return [spread]
    if isinstance(spread, Proportion):
        return [_of_counts({0.0: spread.n - spread.total, 1.0: spread.total})]
    if isinstance(spread, PairedProportions):
        gained, lost, n = (spread.times * one for one in spread[:3])
        return [_of_counts({-1.0: lost, 0.0: n - gained - lost, 1.0: gained})]
    if isinstance(spread, WidestInterval):
        found = [_strata(one) for one in spread.methods]
        every = [one for each in found for one in each]
        return sorted(every, key=lambda one: one.pseudo_size) if all(found) else []
    return []


def _of_counts(counts: Mapping[float, float]) -> BoundedMean:
    """The mean of values, each with the number of its documents; the range is that of
    the values."""
    n, low, high = math.fsum(counts.values()), min(counts), max(counts)
    value = math.fsum(one * count for one, count in counts.items()) / n
    square = math.fsum(count * (one - value) ** 2 for one, count in counts.items())
    return BoundedMean(
        value=value,
        stderr=math.sqrt(square) / n,
        low=low,
        high=high,
        units=tuple((one, 1.0, count) for one, count in counts.items() if count),
        kinds=((low, 1.0), (high, 1.0)),
        pseudo_size=1.0,
    )
