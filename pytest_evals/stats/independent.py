"""Estimates from independent ones: a difference, and a weighted sum."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import NamedTuple

from pytest_evals.stats.interval_methods import (
    ExactValue,
    IntervalEstimate,
    NormalEstimate,
)
from pytest_evals.stats.intervals import ConfidenceInterval

_HALVINGS = 60
_USUAL = 0.95
"""Confidence of the interval that replaces a zero standard error."""


@dataclass(frozen=True, slots=True)
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
        """Return the p-value of "the true difference is less than the bound"."""
        return _p_value(lambda level: self.interval(level).high < bound)

    def p_greater(self, bound: float) -> float:
        """Return the p-value of "the true difference is greater than the bound"."""
        return _p_value(lambda level: self.interval(level).low > bound)

    def scaled(self, factor: float) -> IndependentDifference:
        """Return the difference with the new sample larger by this factor."""
        return IndependentDifference(self.new.scaled(factor), self.old)


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


def weighted_sum(parts: Sequence[WeightedTerm]) -> NormalEstimate | ExactValue:
    """Estimate the weighted sum of independent estimates.

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
