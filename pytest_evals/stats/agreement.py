"""Agreement of raters, and how ratings depend on another number."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import NamedTuple

_PERMUTATIONS = 4_000
_RESAMPLES = 2_000
_MOST_COUNTS = 4_000_000
"""Counts of resamples that are in memory at a time."""
_EQUAL = 1e-12
"""Variance below which all ratings are equal."""
Units = Sequence[Sequence[float]]
"""For each rated thing, the ratings that it got, from any of the raters."""


class AlphaLimits(NamedTuple):
    """Confidence limits of Krippendorff's alpha."""

    low: float
    high: float
    n_undefined: int  # resamples without a value, which are left out


def krippendorff_alpha(units: Units) -> float | None:
    """Return Krippendorff's alpha with the interval metric: 1 minus the observed over
    the expected disagreement (Krippendorff 2011, Computing Krippendorff's
    Alpha-Reliability). With two categories it equals that of the nominal metric.

    Things with fewer than two ratings do not count. ``None`` if all ratings are equal,
    so that no disagreement is expected.
    """
    parts = [_contributions(one) for one in units]
    return _alpha(*map(math.fsum, zip(*parts, strict=True))) if parts else None


def alpha_limits(documents: Sequence[Units], confidence: float) -> AlphaLimits | None:
    """Return percentile limits of Krippendorff's alpha by seeded resampling of
    documents, whose ratings stay together; ``None`` if no resample has a value.

    Args:
        documents: The units of each document.
        confidence: Of each limit, one-sided.
    """
    import numpy as np

    totals = np.array(
        [np.sum([_contributions(one) for one in units], axis=0) for units in documents]
    )  # (n, 4)
    n, rng = len(documents), np.random.default_rng(0)
    block = max(1, _MOST_COUNTS // n)
    found: list[float] = []
    for start in range(0, _RESAMPLES, block):
        size = min(block, _RESAMPLES - start)
        counts = rng.multinomial(n, np.full(n, 1 / n), size=size)  # (B, n)
        values = (_alpha(*map(float, row)) for row in counts @ totals)
        found += [one for one in values if one is not None]
    if not found:
        return None
    low, high = np.quantile(found, [1 - confidence, confidence])
    return AlphaLimits(float(low), float(high), _RESAMPLES - len(found))


def _contributions(ratings: Sequence[float]) -> tuple[float, ...]:
    """What a rated thing adds to the sums: disagreement, ratings, their sum and that of
    their squares."""
    m = len(ratings)
    if m < 2:
        return 0.0, 0.0, 0.0, 0.0
    total, squares = math.fsum(ratings), math.fsum(one * one for one in ratings)
    return 2 * (m * squares - total**2) / (m - 1), float(m), total, squares


def _alpha(disagreement: float, n: float, total: float, squares: float) -> float | None:
    spread = 2 * (n * squares - total**2)
    if spread <= _EQUAL * n * n:
        return None
    return 1 - disagreement * (n - 1) / spread


def kappa(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Return Cohen's kappa of two raters with quadratic weights (Cohen 1968).

    With two categories it equals Cohen's unweighted kappa (1960). ``None`` if both
    raters give one and the same rating throughout, so that chance alone explains it.

    Args:
        pairs: The ratings of each document; not empty.
    """
    n = len(pairs)
    first = math.fsum(one for one, _ in pairs) / n
    second = math.fsum(one for _, one in pairs) / n
    observed = math.fsum((one - other) ** 2 for one, other in pairs) / n
    expected = (
        math.fsum((one - first) ** 2 + (other - second) ** 2 for one, other in pairs)
        / n
        + (first - second) ** 2
    )
    return 1 - observed / expected if expected > 0 else None


def slope_within(
    groups: Sequence[Hashable], x: Sequence[float], y: Sequence[float]
) -> tuple[float, float] | None:
    """Return the least-squares slope of y on x among members of the same group, and the
    two-sided p-value of no dependence; ``None`` if x does not vary within a group.

    The p-value is that of seeded permutations of x within the groups, which also holds
    for few values and for values of 0 and 1.
    """
    import numpy as np

    rng = np.random.default_rng(0)
    square, product, permuted = 0.0, 0.0, np.zeros(_PERMUTATIONS)
    for group in dict.fromkeys(groups):
        here = [i for i, one in enumerate(groups) if one == group]
        dx, dy = (np.array([one[i] for i in here], dtype=float) for one in (x, y))
        dx, dy = dx - dx.mean(), dy - dy.mean()
        square += float(dx @ dx)
        product += float(dx @ dy)
        permuted += rng.permuted(np.tile(dx, (_PERMUTATIONS, 1)), axis=1) @ dy
    if square <= 1e-12 * len(x):
        return None
    n_extreme = int((np.abs(permuted) >= abs(product) * (1 - 1e-9) - 1e-12).sum())
    return product / square, (1 + n_extreme) / (1 + _PERMUTATIONS)
