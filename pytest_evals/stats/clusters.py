"""Values that hang together: questions on one passage, turns of one talk.

Numbers and labels in, numbers out.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import NamedTuple


class ClusteredStderr(NamedTuple):
    """A standard error that knows of clusters.

    Args:
        stderr: It.
        n_clusters: How many there are.
        design_effect: How many times the variance is that of as many values which do
            not hang together; at least 1, and 1 where those do not vary.
    """

    stderr: float
    n_clusters: int
    design_effect: float


def clustered_stderr(
    deviations: Sequence[float], labels: Sequence[Hashable]
) -> ClusteredStderr:
    """Standard error of a mean whose values hang together within clusters.

    The root of C/(C-1) times the sum of the squared sums of each cluster, over n: the
    cluster-robust one of a regression on a constant, with the usual correction for few
    clusters.

    Args:
        deviations: (n,) each value less the mean; or its influence on a statistic.
        labels: (n,) its cluster; at least two are different.

    Raises:
        ValueError: There is one cluster only.
    """
    n = len(deviations)
    sums: dict[Hashable, float] = {}
    for deviation, label in zip(deviations, labels, strict=True):
        sums[label] = sums.get(label, 0.0) + deviation
    n_clusters = len(sums)
    if n_clusters < 2:
        raise ValueError("one cluster says nothing of how clusters differ")
    total = math.fsum(value * value for value in sums.values())
    stderr = math.sqrt(n_clusters / (n_clusters - 1) * total) / n
    plain = math.fsum(value * value for value in deviations) / n / (n - 1)
    effect = max(1.0, stderr * stderr / plain) if plain > 0 else 1.0
    return ClusteredStderr(stderr, n_clusters, effect)
