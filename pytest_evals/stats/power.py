"""What a comparison can see: how small a drop, how often by chance, how many documents.

Numbers in, numbers out; shares from 0 to 1, drops as shares too. Everything is the
normal approximation, which is what a plan needs: the verdict itself is exact. Standard
library only.
"""

from __future__ import annotations

import math
from statistics import NormalDist

__all__ = [
    "POWER",
    "chance_below",
    "chance_proven",
    "detectable",
    "documents_for",
    "paired_stderr",
    "unpaired_stderr",
]

POWER = 0.8
"""The usual chance to see what is there."""
_NORMAL = NormalDist()


def paired_stderr(flips: float, n: float, drop: float = 0.0) -> float:
    """Standard error of a change of a share of right answers, on the same documents.

    Args:
        flips: Share of documents whose answer turns; at least the drop, which turns as
            many.
        n: Documents.
        drop: The true change.
    """
    return math.sqrt(max(flips, abs(drop)) - drop * drop) / math.sqrt(n)


def unpaired_stderr(share: float, n: float) -> float:
    """The same, on as many other documents."""
    return math.sqrt(2 * share * (1 - share) / n)


def detectable(stderr: float, confidence: float, power: float = POWER) -> float:
    """The smallest drop that is seen with this power, for a standard error."""
    return (_NORMAL.inv_cdf(confidence) + _NORMAL.inv_cdf(power)) * stderr


def documents_for(
    drop: float, variance: float, confidence: float, power: float = POWER
) -> int:
    """Documents that it takes to see a drop.

    Args:
        drop: More than 0.
        variance: Of one document's change: the share of answers that turn.
        confidence: One-sided.
        power: Chance to see it.
    """
    return math.ceil((detectable(1.0, confidence, power) / drop) ** 2 * variance)


def chance_below(bar: float, mean: float, stderr: float) -> float:
    """Chance that a number falls below a bar."""
    if stderr == 0:
        return float(mean < bar)
    return _NORMAL.cdf((bar - mean) / stderr)


def chance_proven(margin: float, stderr: float, confidence: float) -> float:
    """Chance that a one-sided bound clears a margin that the number clears by this
    much."""
    if stderr == 0:
        return float(margin >= 0)
    return _NORMAL.cdf(margin / stderr - _NORMAL.inv_cdf(confidence))
