"""Clustered standard errors: questions on one passage, turns of one conversation."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import NamedTuple


class ClusteredStderr(NamedTuple):
    """A cluster-robust standard error.

    Args:
        design_effect: Variance relative to that of as many independent values; at least
            1, and 1 if the values do not vary.
    """

    stderr: float
    n_clusters: int
    design_effect: float


def clustered_stderr(
    deviations: Sequence[float], labels: Sequence[Hashable]
) -> ClusteredStderr:
    """Return the cluster-robust standard error of a mean.

    The root of C/(C-1) times the sum of the squared sums of each cluster, over n: the
    cluster-robust standard error of a regression on a constant, with the usual
    correction for few clusters.

    Args:
        deviations: (n,) each value minus the mean, or its influence on a statistic.
        labels: (n,) the cluster of each value; at least two different ones.

    Raises:
        ValueError: There is only one cluster.
    """
    n = len(deviations)
    sums: dict[Hashable, float] = {}
    for deviation, label in zip(deviations, labels, strict=True):
        sums[label] = sums.get(label, 0.0) + deviation
    n_clusters = len(sums)
    if n_clusters < 2:
        raise ValueError("a clustered standard error needs at least 2 clusters")
    total = math.fsum(value * value for value in sums.values())
    stderr = math.sqrt(n_clusters / (n_clusters - 1) * total) / n
    plain = math.fsum(value * value for value in deviations) / n / (n - 1)
    effect = max(1.0, stderr * stderr / plain) if plain > 0 else 1.0
    return ClusteredStderr(stderr, n_clusters, effect)
