"""Averages of numbers and their analytic standard error.

Numbers in, numbers out; knows no document and no metric. The formulas are lm-eval's
(0.4.13, ``lm_eval.api.metrics``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence


def mean(values: Sequence[float]) -> float:
    """Sum over count; values must not be empty."""
    return sum(values) / len(values)


def mean_stderr(values: Sequence[float]) -> float | None:
    """Sample standard deviation over the root of the count; ``None`` for fewer than two
    values."""
    n = len(values)
    if n < 2:
        return None
    centre = mean(values)
    variance = sum((value - centre) ** 2 for value in values) / (n - 1)
    return math.sqrt(variance) / math.sqrt(n)


def median(values: Sequence[float]) -> float:
    """The upper median: no average of the two middle values when their number is
    even."""
    return sorted(values)[len(values) // 2]


def nanmean(values: Sequence[float]) -> float:
    """The mean of what is not NaN; NaN when nothing is left."""
    kept = [value for value in values if not math.isnan(value)]
    return mean(kept) if kept else math.nan


def weighted_mean(values: Sequence[float], weights: Sequence[float]) -> float:
    """Sum of the values over sum of the weights: each value is already a total over its
    weight (nats of a text, over its words).

    Raises:
        ZeroDivisionError: The weights add up to 0.
    """
    return sum(values) / sum(weights)
