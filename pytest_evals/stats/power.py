"""Power calculations by the normal approximation."""

from __future__ import annotations

import math
from statistics import NormalDist

POWER = 0.8
"""Default probability of detecting a drop."""
_NORMAL = NormalDist()


def paired_stderr(flips: float, n: float, drop: float = 0.0) -> float:
    """Return the standard error of the change of a proportion on the same documents.

    Args:
        flips: Flip rate: fraction of documents that flip; raised to the drop if
            smaller.
        n: Number of documents.
        drop: The true change.
    """
    return math.sqrt(max(flips, abs(drop)) - drop * drop) / math.sqrt(n)


def chance_below(threshold: float, mean: float, stderr: float) -> float:
    """Return the probability that an estimate is below a threshold."""
    if stderr == 0:
        return float(mean < threshold)
    return _NORMAL.cdf((threshold - mean) / stderr)
