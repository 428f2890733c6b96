"""Weighted sum of independent estimates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple

from pytest_evals.stats.interval_methods import (
    ExactValue,
    IntervalEstimate,
    NormalEstimate,
)

_USUAL = 0.95
"""Confidence of the interval that replaces a zero standard error."""


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
