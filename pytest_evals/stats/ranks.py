"""Ranks of several models on the same documents, with their uncertainty over other
documents."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pytest_evals.core.comparison import ModelRank
from pytest_evals.stats.averages import Labels

N_RESAMPLES = 2000
_SEED = 0
_SLICE = 2**22  # numbers that are drawn at a time
_TIED = 1e-12
"""Means that differ by less are equal: sums in another order round differently."""


def rank_estimates(
    values: Sequence[Sequence[float]], clusters: Labels = None
) -> list[ModelRank]:
    """Return the rank of each model by its mean, over resampled documents.

    Documents are drawn with replacement, the same for all models, so that documents
    that are hard for all of them do not blur the order (percentile bootstrap; Efron and
    Tibshirani 1993, chapter 13).

    Args:
        values: (m, n): the values of m models on n documents; higher is better.
        clusters: The cluster of each document, drawn as a whole; ``None`` if documents
            are independent.
    """
    units, times = np.unique(
        _units(np.asarray(values, dtype=np.float64), clusters),
        axis=1,
        return_counts=True,
    )
    n_models, n_units = len(units) - 1, int(times.sum())
    ranks, _ = _ranks(units @ times[:, None])
    first = np.zeros(n_models)
    counts = np.zeros((n_models, n_models + 1), dtype=np.int64)
    random = np.random.default_rng(_SEED)
    size = max(1, _SLICE // units.shape[1])
    for start in range(0, N_RESAMPLES, size):
        n = min(size, N_RESAMPLES - start)
        drawn = random.multinomial(n_units, times / n_units, size=n)
        resampled, shares = _ranks(units @ drawn.T)
        first += shares.sum(axis=1)
        for model in range(n_models):
            counts[model] += np.bincount(resampled[model], minlength=n_models + 1)
    return [
        ModelRank(
            int(ranks[model, 0]),
            *_interval(counts[model]),
            float(first[model] / N_RESAMPLES),
        )
        for model in range(n_models)
    ]


def _units(table: NDArray[np.float64], clusters: Labels) -> NDArray[np.float64]:
    """(m + 1, k): the sum of each model over each cluster, and its documents."""
    if clusters is None:
        return np.vstack([table, np.ones(table.shape[1])])
    numbers = {label: n for n, label in enumerate(dict.fromkeys(clusters))}
    at = np.array([numbers[label] for label in clusters])
    rows = [np.bincount(at, weights=row, minlength=len(numbers)) for row in table]
    return np.vstack([*rows, np.bincount(at, minlength=len(numbers))])


def _ranks(
    totals: NDArray[np.float64],
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """(m, B) ranks, and each model's share of the first place, from (m + 1, B) sums and
    numbers of documents."""
    means = totals[:-1] / totals[-1]
    ranks = 1 + (means[None, :, :] > means[:, None, :] + _TIED).sum(axis=1)
    firsts = ranks == 1
    return ranks, firsts / firsts.sum(axis=0)


def _interval(counts: NDArray[np.int64]) -> tuple[int, int]:
    """The ranks between which 90% of the resamples lie. ``counts``: by rank."""
    shares = counts.cumsum() / counts.sum()
    low = int((shares > 0.05).argmax())
    return low, int((shares >= 0.95).argmax())
