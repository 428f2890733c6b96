"""Means and analytic standard errors.

Those of a mean are lm-eval's (0.4.13, ``lm_eval.api.metrics``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pytest_evals.stats.interval_methods import NormalEstimate, Proportion, quantile

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Labels = Sequence[Hashable] | None
"""The cluster of each document; ``None`` if documents are independent."""


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


def mean_over_reruns(
    answers: Sequence[Sequence[float]], limits: tuple[float, float]
) -> NormalEstimate | Proportion:
    """Estimate the mean over documents, with its uncertainty over further runs on them.

    The variances within documents add up, with degrees of freedom by Satterthwaite
    (1946). One pseudo-document with the largest variance that the range allows accounts
    for flips too rare to be observed: without it, values that never differed would
    count as certain.

    Correct and wrong answers have binomial limits with the number of answers that gives
    this variance (Korn and Graubard 1998), at least their own number: the number of
    correct answers varies less than a binomial one if documents have different rates
    (Hoeffding 1956).

    Args:
        answers: At least two values for each document.
    """
    import numpy as np

    n = len(answers)
    variances = [float(np.var(values, ddof=1)) for values in answers]
    sizes = [len(values) for values in answers]
    variances.append((limits[1] - limits[0]) ** 2 / 4)
    sizes.append(min(sizes))
    terms = [variance / size for variance, size in zip(variances, sizes, strict=True)]
    total = math.fsum(terms)
    doubt = math.fsum(
        term * term / (size - 1) for term, size in zip(terms, sizes, strict=True)
    )
    value = math.fsum(math.fsum(values) / len(values) for values in answers) / n
    df = total * total / doubt if doubt else math.inf
    if all(one in (0, 1) for values in answers for one in values):
        wider = quantile(0.95, math.inf) / quantile(0.95, df)
        effective = value * (1 - value) * n * n / total * wider**2
        effective = max(n * min(sizes), effective)
        return Proportion(value * effective, effective)
    return NormalEstimate(value, math.sqrt(total) / n, df, *limits)


_STEP = 1e-5  # step size of the central differences, relative to the sum


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
