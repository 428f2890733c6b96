"""The weighted sum of independent numbers, and where it lies."""

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
"""The confidence whose bounds stand in where no answer varies."""


class WeightedTerm(NamedTuple):
    """One of the numbers.

    Args:
        spread: It.
        weight: How many times it counts.
        n: Documents that it is of.
    """

    spread: IntervalEstimate
    weight: float
    n: int


def weighted_sum(parts: Sequence[WeightedTerm]) -> NormalEstimate | ExactValue:
    """The sum of the numbers by their weights.

    Its variance is the sum of theirs by the squares of the weights; its degrees of
    freedom are Welch's and Satterthwaite's (1946). A share of right answers that shows
    no variance, because all of its answers are alike, has the one that would give its
    score interval.
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
