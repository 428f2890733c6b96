"""Repeatability: variation between runs on the same documents."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from pytest_evals.stats.interval_methods import NormalEstimate, Proportion, quantile

_USUAL = 0.95


class Repeatability(NamedTuple):
    """Variation observed over repeated runs on the same documents."""

    mean: float
    rate: float
    """Mean squared change of a document between two runs; for correct/wrong answers,
    the flip rate."""
    stderr: float  # standard deviation of a run's mean, derived from that rate
    spread: float  # observed standard deviation of the runs' means


def repeatability(values: Sequence[Sequence[float]]) -> Repeatability:
    """Return the variation between runs. ``values``: (k, n) a number for each of n
    documents in each of k runs, k at least 2."""
    import numpy as np  # late: slow, and few gates need it

    table = np.array(values, dtype=float)
    means = table.mean(axis=1)
    # The square of a difference of two draws is twice their variance, on average.
    rate = 2 * float(table.var(axis=0, ddof=1).mean())
    n = table.shape[1]
    return Repeatability(
        float(means.mean()), rate, (rate / (2 * n)) ** 0.5, float(means.std(ddof=1))
    )


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
        wider = quantile(_USUAL, math.inf) / quantile(_USUAL, df)
        effective = value * (1 - value) * n * n / total * wider**2
        effective = max(n * min(sizes), effective)
        return Proportion(value * effective, effective)
    return NormalEstimate(value, math.sqrt(total) / n, df, *limits)
