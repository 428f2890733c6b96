"""Power calculations by the normal approximation."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from statistics import NormalDist

POWER = 0.8
USUAL_FLIPS = 0.05
"""Assumed flip rate, if unknown."""
_NORMAL = NormalDist()
_ROUNDING = 1e-9


def paired_stderr(flips: float, n: float, drop: float = 0.0) -> float:
    """Return the standard error of the change of a proportion on the same documents.
    ``flips``: flip rate: fraction of documents that flip; raised to the drop if
    smaller."""
    return math.sqrt(max(flips, abs(drop)) - drop * drop) / math.sqrt(n)


def documents_for(alpha: float, share: float) -> int:
    """Return the smallest number of documents after which, if none of them differed,
    less than this share of all differ, at one-sided level alpha: (1 - share)^n."""
    return math.ceil(math.log(alpha) / math.log1p(-share) - _ROUNDING)


def chance_below(threshold: float, mean: float, stderr: float) -> float:
    """Return the probability that an estimate is below a threshold."""
    if stderr == 0:
        return float(mean < threshold)
    return _NORMAL.cdf((threshold - mean) / stderr)


def first_that(
    holds: Callable[[int], bool], least: int, most: int, guess: int = 0
) -> int | None:
    """Return the smallest integer for which a monotone condition holds; ``None`` if
    it holds for none. ``guess`` is a starting point, which saves evaluations."""
    high = min(max(least, guess), most)
    low, step = high, 1
    if holds(high):
        while low > least:
            low = max(least, high - step)
            if not holds(low):
                low += 1
                break
            high, step = low, 2 * step
    else:
        low = high + 1
        while True:
            if low > most:
                return None
            high = min(high + step, most)
            if holds(high):
                break
            low, step = high + 1, 2 * step
    return low + bisect_left(range(low, high), True, key=holds)
