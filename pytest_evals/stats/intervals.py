"""Student's t confidence intervals.

Each limit is one-sided at its own level: with confidence 0.95, the true value is below
the lower limit in at most 5% of samples, and above the upper limit in at most 5%.
Together the limits form a 90% confidence interval.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple


class ConfidenceInterval(NamedTuple):
    """Two one-sided confidence limits."""

    low: float
    high: float


def student(
    value: float, stderr: float, df: float, confidence: float
) -> ConfidenceInterval:
    """Return Student's t interval of a mean.

    Args:
        df: Degrees of freedom, more than 0: number of documents minus one. Infinite if
            the standard error is known.
        confidence: Level of each limit, below 1.
    """
    reach = quantile(confidence, df) * stderr
    return ConfidenceInterval(value - reach, value + reach)


def quantile(confidence: float, df: float) -> float:
    """Return the quantile of Student's t; normal if ``df`` is infinite."""
    if math.isinf(df):
        return NormalDist().inv_cdf(confidence)
    from scipy.special import stdtrit

    return float(stdtrit(df, confidence))


def cumulative(score: float, df: float) -> float:
    """Return the cumulative probability of a score under the same distribution."""
    if math.isinf(df):
        return NormalDist().cdf(score)
    from scipy.special import stdtr

    return float(stdtr(df, score))
