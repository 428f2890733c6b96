"""Intervals around an average: numbers in, numbers out.

Each bound is one-sided at its own level: with confidence 0.95, the true value lies
below the lower bound in at most 5 of 100 samples, and above the upper one in at most 5
of 100 others. Both together make a 90 % interval.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple


class ConfidenceInterval(NamedTuple):
    """Two one-sided bounds."""

    low: float
    high: float


def student(
    value: float, stderr: float, df: float, confidence: float
) -> ConfidenceInterval:
    """Student's t interval of a mean.

    Args:
        value: The mean.
        stderr: Its standard error.
        df: Degrees of freedom, more than 0: documents less one. Infinite where the
            standard error is known.
        confidence: Of each bound, below 1.
    """
    reach = quantile(confidence, df) * stderr
    return ConfidenceInterval(value - reach, value + reach)


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
