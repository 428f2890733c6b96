"""The betting confidence limits of Waudby-Smith and Ramdas (2024), as an oracle.

"Estimating means of bounded random variables by betting", JRSS B 86, 1-27: the capital
of a bettor against the mean m, with predictable plug-in bets for a fixed number of
values. Their hedged capital bets on both sides with half of the money each; a one-sided
limit needs one side only. By Ville's inequality its capital ever exceeds 1/alpha with a
probability of alpha at most if m is the mean.
Guaranteed for all distributions on [0, 1] and all n.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

__all__ = ["betting_limits"]

GRID = 1000


def betting_limits(values: Sequence[float], alpha: float = 0.05) -> tuple[float, float]:
    """Lower and upper limit of the mean of values between 0 and 1, each one-sided.

    Args:
        values: (n,) independent, in random order.
        alpha: One-sided error rate of each limit.
    """
    x = np.asarray(values, dtype=float)
    return _lower(x, alpha), 1 - _lower(1 - x, alpha)


def _lower(x: np.ndarray, alpha: float) -> float:
    """The smallest mean against which the capital has never come to 1/alpha."""
    n = len(x)
    t = np.arange(1, n + 1)
    means = (0.5 + np.cumsum(x)) / (t + 1)
    variances = (0.25 + np.cumsum((x - means) ** 2)) / (t + 1)
    before = np.concatenate([[0.25], variances[:-1]])
    bets = np.sqrt(2 * math.log(1 / alpha) / (n * before))
    m = np.linspace(0, 1, GRID, endpoint=False)[1:]
    # (means, n): bets are cut so that the capital stays positive
    cut = np.minimum(bets[None], 0.75 / m[:, None])
    capital = np.cumsum(np.log1p(cut * (x[None] - m[:, None])), axis=1)
    rejected = capital.max(axis=1) >= math.log(1 / alpha)
    return float(m[~rejected][0]) if not rejected.all() else 1.0
