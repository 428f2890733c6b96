"""Influence of each document on a statistic of sums (infinitesimal jackknife).

The delta method: the gradient of the statistic at the sums, times the document's
deviation from the mean contribution.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_STEP = 1e-5
"""Step size of the central differences, relative to the sum."""


def influences(
    columns: Sequence[Sequence[float]], score: Callable[[Sequence[float]], float]
) -> NDArray[np.float64]:
    """Return deviations whose mean has the standard error of the statistic.

    Args:
        columns: (m, n): m numbers for each of n documents.
        score: Maps the m sums to the statistic; smooth near these sums.

    Returns:
        (n,) numbers that add up to 0.
    """
    import numpy as np

    table = np.asarray(columns, dtype=np.float64)  # (m, n)
    n, slopes = table.shape[1], slopes_of(columns, score)
    means = table.sum(axis=1, keepdims=True) / n
    found: NDArray[np.float64] = n * (slopes @ (table - means))
    return found


def slopes_of(
    columns: Sequence[Sequence[float]], score: Callable[[Sequence[float]], float]
) -> NDArray[np.float64]:
    """Return the (m,) derivatives of the statistic by the m sums of the columns."""
    import numpy as np

    totals = np.asarray(columns, dtype=np.float64).sum(axis=1)
    return np.array([_slope(score, totals, i) for i in range(len(totals))])


def _slope(
    score: Callable[[Sequence[float]], float], totals: NDArray[np.float64], i: int
) -> float:
    step = _STEP * max(1.0, abs(float(totals[i])))
    above, below = totals.copy(), totals.copy()
    above[i] += step
    below[i] -= step
    return (score(above.tolist()) - score(below.tolist())) / (2 * step)
