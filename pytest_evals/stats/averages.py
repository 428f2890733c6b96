"""Means, medians and their analytic standard errors.

The formulas are lm-eval's (0.4.13, ``lm_eval.api.metrics``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence


def mean(values: Sequence[float]) -> float:
    """Return the arithmetic mean; values must not be empty."""
    return sum(values) / len(values)


def mean_stderr(values: Sequence[float]) -> float | None:
    """Return the standard error of the mean; ``None`` for fewer than two values."""
    n = len(values)
    if n < 2:
        return None
    centre = mean(values)
    variance = sum((value - centre) ** 2 for value in values) / (n - 1)
    return math.sqrt(variance) / math.sqrt(n)


def median(values: Sequence[float]) -> float:
    """Return the upper median: for an even count, the larger of the two middle
    values."""
    return sorted(values)[len(values) // 2]


def nanmean(values: Sequence[float]) -> float:
    """Return the mean of the values that are not NaN; NaN if missing."""
    kept = [value for value in values if not math.isnan(value)]
    return mean(kept) if kept else math.nan


def weighted_mean(values: Sequence[float], weights: Sequence[float]) -> float:
    """Return the sum of the values over the sum of the weights: each value is already a
    total over its weight (nats of a string, over its words).

    Raises:
        ZeroDivisionError: The weights add up to 0.
    """
    return sum(values) / sum(weights)
