"""Estimates from independent ones: a difference, and a weighted sum."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import NormalDist
from typing import NamedTuple

from pytest_evals.stats.interval_methods import (
    ConfidenceInterval,
    ExactValue,
    IntervalEstimate,
    NormalEstimate,
)

_HALVINGS = 60
_USUAL = 0.95
"""Confidence of the interval that replaces a zero standard error."""


class KnownLimits:
    """P-values of an estimate by its confidence limits."""

    def interval(self, confidence: float) -> ConfidenceInterval:
        """Return both confidence limits, each one-sided at this confidence level."""
        raise NotImplementedError

    def p_less(self, bound: float) -> float:
        """Return the p-value of "the true value is less than the bound"."""
        return _p_value(lambda level: self.interval(level).high < bound)

    def p_greater(self, bound: float) -> float:
        """Return the p-value of "the true value is greater than the bound"."""
        return _p_value(lambda level: self.interval(level).low > bound)


@dataclass(frozen=True)
class IndependentDifference(KnownLimits):
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

    def scaled(self, factor: float) -> IndependentDifference:
        """Return the difference with the new sample larger by this factor; both, if
        both are samples of one set."""
        old = self.old
        both = isinstance(old, SampledShare)
        return IndependentDifference(
            self.new.scaled(factor), old.scaled(factor) if both else old
        )


@lru_cache(maxsize=100_000)
def _at_least(k: int, n: int, count: int, size: int) -> float:
    """P(X >= k) if n of ``size`` documents are drawn, ``count`` of them with the
    property."""
    from scipy.stats import hypergeom

    return float(hypergeom.sf(k - 1, size, count, n))


@dataclass(frozen=True)
class SampledShare(KnownLimits):
    """A share of a finite set, known from a sample without replacement, with exact
    hypergeometric limits.
    """

    total: float  # documents of the sample with the property
    n: float  # size of the sample
    size: int  # size of the set
    whole: int  # number that shares are relative to, at least ``size``
    known: float = 0.0  # share that is added

    @property
    def value(self) -> float:
        """Return the estimate."""
        return self._share(self.size * self.total / self.n if self.n else 0.0)

    @property
    def stderr(self) -> float:
        """Return its standard error."""
        if not self.n or self.size < 2:
            return 0.0
        share = self.total / self.n
        variance = share * (1 - share) / self.n * (self.size - self.n)
        return self.size * math.sqrt(variance / (self.size - 1)) / self.whole

    def interval(self, confidence: float) -> ConfidenceInterval:
        """Return the smallest and the largest share that the sample does not
        exclude."""
        k, n, alpha = round(self.total), round(self.n), 1 - confidence
        counts = range(k, self.size - n + k + 1)  # those that are possible

        def chance(least: int) -> Callable[[int], float]:
            return lambda count: _at_least(least, n, count, self.size)

        lowest = k + bisect_right(counts, alpha, key=chance(k))
        highest = k - 1 + bisect_left(counts, 1 - alpha, key=chance(k + 1))
        ends = lowest, max(lowest, highest)
        return ConfidenceInterval(*map(self._share, ends))

    def scaled(self, factor: float) -> SampledShare:
        """Return the same share of a larger sample, up to the whole set."""
        factor = min(factor, self.size / self.n) if self.n else 1.0
        return replace(self, total=self.total * factor, n=self.n * factor)

    def _share(self, count: float) -> float:
        return self.known + count / self.whole


def _p_value(is_excluded: Callable[[float], bool]) -> float:
    """Return the smallest 1 - confidence at which the limit excludes a bound; 1 if it
    does not even at a confidence of 0.5."""
    if not is_excluded(0.5):
        return 1.0
    low, high = 0.0, 0.5
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if is_excluded(1 - middle) else (middle, high)
    return high


class WeightedTerm(NamedTuple):
    """One term of the sum."""

    spread: IntervalEstimate
    weight: float
    n: int


def weighted_sum(parts: Sequence[WeightedTerm]) -> IntervalEstimate:
    """Estimate the weighted sum of independent estimates: of means in a known range as
    one stratified mean, of others by :func:`normal_sum`. The weights add up to 1."""
    from pytest_evals.stats.stratified import stratified

    found = stratified([one.spread for one in parts], [one.weight for one in parts])
    return found or normal_sum(parts)


def normal_sum(parts: Sequence[WeightedTerm]) -> NormalEstimate | ExactValue:
    """Estimate the weighted sum of independent estimates, treated as normal.

    Its variance is the sum of their variances times the squared weights; its degrees of
    freedom are Welch's and Satterthwaite's (1946). A proportion of 0 or 1 shows no
    variance; it gets the variance implied by its one-sided confidence limits.
    """
    value = math.fsum(part.weight * part.spread.value for part in parts)
    terms = [(part.weight * _stderr(part.spread)) ** 2 for part in parts]
    variance = math.fsum(terms)
    if variance <= 0:
        return ExactValue(value)
    doubt = math.fsum(
        term * term / _freedom(part) for term, part in zip(terms, parts, strict=True)
    )
    df = variance * variance / doubt if doubt > 0 else math.inf
    return NormalEstimate(value, math.sqrt(variance), df)


def _stderr(spread: IntervalEstimate) -> float:
    if spread.stderr > 0 or isinstance(spread, ExactValue):
        return spread.stderr
    low, high = spread.interval(_USUAL)
    reach = max(spread.value - low, high - spread.value)
    return reach / NormalDist().inv_cdf(_USUAL)


def _freedom(part: WeightedTerm) -> float:
    if isinstance(part.spread, NormalEstimate):
        return part.spread.df
    return max(1.0, part.n - 1.0)
