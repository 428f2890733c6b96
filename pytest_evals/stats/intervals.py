"""Intervals around an average: numbers in, numbers out.

Each bound is one-sided at its own level: with confidence 0.95, the true value lies
below the lower bound in at most 5 of 100 samples, and above the upper one in at most 5
of 100 others. Both together make a 90 % interval.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple

__all__ = [
    "Interval",
    "cumulative",
    "normal",
    "quantile",
    "sample_size",
    "student",
    "wilson",
]


class Interval(NamedTuple):
    """Two one-sided bounds."""

    low: float
    high: float


def wilson(share: float, n: float, confidence: float, df: float = math.inf) -> Interval:
    """Wilson's score interval (1927) for a share of right answers.

    Unlike the value with its standard errors on both sides, it keeps its promise near 0
    and 1 and for few documents.

    Args:
        share: The share that was seen, from 0 to 1.
        n: Documents, more than 0; fewer than there are where they hang together.
        confidence: Of each bound, below 1.
        df: Degrees of freedom where ``n`` is estimated: Student's t stands in for the
            normal distribution.
    """
    z = quantile(confidence, df)
    weight = z * z / n
    centre = (share + weight / 2) / (1 + weight)
    reach = z / (1 + weight) * math.sqrt(share * (1 - share) / n + weight / (4 * n))
    # Rounding must not leave the ends open where they are exactly 0 and 1.
    low = 0.0 if share == 0 else max(0.0, centre - reach)
    high = 1.0 if share == 1 else min(1.0, centre + reach)
    return Interval(low, high)


def student(value: float, stderr: float, df: float, confidence: float) -> Interval:
    """Student's t interval of a mean.

    Args:
        value: The mean.
        stderr: Its standard error.
        df: Degrees of freedom, more than 0: documents less one. Infinite where the
            standard error is known.
        confidence: Of each bound, below 1.
    """
    reach = quantile(confidence, df) * stderr
    return Interval(value - reach, value + reach)


def normal(value: float, stderr: float, confidence: float) -> Interval:
    """The interval of a number whose errors are normal, with a known standard error."""
    return student(value, stderr, math.inf, confidence)


def quantile(confidence: float, df: float) -> float:
    """Of Student's t; of the normal distribution where ``df`` is infinite."""
    if math.isinf(df):
        return NormalDist().inv_cdf(confidence)
    from scipy.special import stdtrit

    return float(stdtrit(df, confidence))


def cumulative(score: float, df: float) -> float:
    """Probability of a score as small as this or smaller, by the same distribution."""
    if math.isinf(df):
        return NormalDist().cdf(score)
    from scipy.special import stdtr

    return float(stdtr(df, score))


def sample_size(n: int, stderr: float, distance: float, confidence: float) -> int:
    """About how many documents it takes until a bound comes as near as this.

    Args:
        n: Documents that the standard error is of.
        stderr: It, more than 0.
        distance: From the value to what the bound must not reach, more than 0.
        confidence: Of the bound.
    """
    z = NormalDist().inv_cdf(confidence)
    return math.ceil(n * (z * stderr / distance) ** 2)
