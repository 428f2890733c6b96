"""Values that hang together: questions on one passage, turns of one talk.

Numbers and labels in, numbers out.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import NamedTuple

__all__ = ["Clustered", "clustered_stderr", "stderr_range"]


class Clustered(NamedTuple):
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
) -> Clustered:
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
    return Clustered(stderr, n_clusters, effect)


def stderr_range(
    values: Sequence[float], labels: Sequence[Hashable], *, n_loose: int
) -> tuple[float, float]:
    """What the clustered standard error of a mean is at least and at most, where some
    values are only known to lie within a half of what is given.

    By the triangle inequality: the sums of clusters, less what the mean makes of them,
    move by no more than both can.

    Args:
        values: (n,) the loose ones last, each in the middle of where it may lie.
        labels: (n,) the cluster of each; at least two are different.
        n_loose: How many are loose.
    """
    n = len(values)
    mean = math.fsum(values) / n
    found = clustered_stderr([value - mean for value in values], labels)
    sizes, loose = Counter(labels), Counter(labels[n - n_loose :])
    moved = math.hypot(*loose.values()) / 2
    moved += n_loose / (2 * n) * math.hypot(*sizes.values())
    correction = math.sqrt(found.n_clusters / (found.n_clusters - 1))
    reach = correction * moved / n
    return max(0.0, found.stderr - reach), found.stderr + reach
