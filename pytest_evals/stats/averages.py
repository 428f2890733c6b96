"""Means, medians and their analytic standard errors.

The formulas are lm-eval's (0.4.13, ``lm_eval.api.metrics``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


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
    """Return the upper median: for even counts, the larger middle value."""
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


class ClusteredStderr(NamedTuple):
    """A cluster-robust standard error. ``design_effect``: variance relative to that
    of as many independent values; at least 1, and 1 if the values do not vary."""

    stderr: float
    n_clusters: int
    design_effect: float


def cluster_sums(values: Sequence[float], labels: Sequence[Hashable]) -> list[float]:
    """Return the sum of the values of each cluster."""
    sums: dict[Hashable, float] = {}
    for value, label in zip(values, labels, strict=True):
        sums[label] = sums.get(label, 0.0) + value
    return [*sums.values()]


def clustered_stderr(
    deviations: Sequence[float], labels: Sequence[Hashable]
) -> ClusteredStderr:
    """Return the cluster-robust standard error of a mean.

    The root of C/(C-1) times the sum of the squared sums of each cluster, over n: the
    cluster-robust standard error of a regression on a constant, with the usual
    correction for few clusters.

    Args:
        deviations: (n,) each value minus the mean, or its influence on a statistic.

    Raises:
        ValueError: There is only one cluster.
    """
    n = len(deviations)
    sums = cluster_sums(deviations, labels)
    n_clusters = len(sums)
    if n_clusters < 2:
        raise ValueError("a single cluster has no variance between clusters")
    total = math.fsum(value * value for value in sums)
    stderr = math.sqrt(n_clusters / (n_clusters - 1) * total) / n
    plain = math.fsum(value * value for value in deviations) / n / (n - 1)
    effect = max(1.0, stderr * stderr / plain) if plain > 0 else 1.0
    return ClusteredStderr(stderr, n_clusters, effect)


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
