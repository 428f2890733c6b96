"""Standard errors and probabilities of plans, by the normal approximation."""

from __future__ import annotations

import math
from statistics import NormalDist

POWER = 0.8
"""The usual probability of detecting a drop."""
_NORMAL = NormalDist()


def paired_stderr(flips: float, n: float, drop: float = 0.0) -> float:
    """Standard error of the change of a proportion on the same documents.

    Args:
        flips: Share of documents that flip; counted as at least the drop.
        n: Documents.
        drop: The true change.
    """
    return math.sqrt(max(flips, abs(drop)) - drop * drop) / math.sqrt(n)


def chance_below(threshold: float, mean: float, stderr: float) -> float:
    """Probability that a number is below a threshold."""
    if stderr == 0:
        return float(mean < threshold)
    return _NORMAL.cdf((threshold - mean) / stderr)
