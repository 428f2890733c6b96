"""Statistics of many resamples at once, for the seeded bootstrap.

Each function takes the values of all documents and returns a statistic: a function from
(B, n) positions (:func:`pytest_evals.stats.bootstrap.draws`) to (B,) replicates, which
can also draw a whole chunk in a compiled loop.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_evals.stats.bootstrap_sums import counts_of, sums_of, taken

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from pytest_evals.stats.bootstrap import Draws, Replicates, Statistic

    Seeded = Callable[[int, int], NDArray[Any]]
    """Maps a seed and a number of resamples to (size, …) counts."""


@dataclass(frozen=True, slots=True)
class ResampledStatistic:
    """A statistic computed from the counts of a resample.

    Args:
        counted: Counts with NumPy, for drawn positions.
        seeded: Draws and counts in compiled loops.
        finish: Maps (B, …) counts to (B,) replicates.
    """

    counted: Callable[[Draws], NDArray[Any]]
    seeded: Seeded
    finish: Callable[[NDArray[Any]], Replicates]

    def __call__(self, at: Draws) -> Replicates:
        """Return the statistic of each row of positions."""
        return self.finish(self.counted(at))

    def drawn(self, seed: int, size: int) -> Replicates:
        """Return the statistic of the resamples of this seed."""
        return self.finish(self.seeded(seed, size))


def _seeded_sums(columns: Sequence[ArrayLike]) -> Seeded:
    """Return the (size, m) sums of each column over each resample."""
    import numpy as np

    table = np.ascontiguousarray(columns, dtype=np.float64)

    def seeded(seed: int, size: int) -> NDArray[np.float64]:
        from pytest_evals.stats import mersenne_twister

        return mersenne_twister.sums(mersenne_twister.key_of(seed), table, size)

    return seeded


def resampled_mean(values: Sequence[float]) -> Statistic:
    """Return the mean as a resampled statistic."""
    return _averaged(values, lambda mean: mean)


def resampled_perplexity(values: Sequence[float]) -> Statistic:
    """Return ``exp(-mean)`` of log-probabilities in nats as a resampled statistic."""
    import numpy as np

    return _averaged(values, lambda mean: np.exp(-mean))


def _averaged(
    values: Sequence[float], finish: Callable[[NDArray[np.float64]], Replicates]
) -> Statistic:
    """Return a function of the mean as a resampled statistic."""
    import numpy as np

    array = np.asarray(values, dtype=np.float64)
    return ResampledStatistic(
        counted=lambda at: taken(array, at).sum(axis=1, keepdims=True),
        seeded=_seeded_sums([array]),
        finish=lambda sums: finish(sums[:, 0] / len(array)),
    )


def resampled_median(values: Sequence[float]) -> Statistic:
    """Return the upper median as a resampled statistic."""
    import numpy as np

    array = np.asarray(values, dtype=np.float64)
    order = np.argsort(array, kind="stable")
    in_order = array[order]
    # Partitioning 32-bit ranks is several times faster than partitioning the values.
    ranks = np.empty(len(array), dtype=np.int32)
    ranks[order] = np.arange(len(array), dtype=np.int32)
    middle = len(array) // 2

    def counted(at: Draws) -> NDArray[np.int32]:
        drawn = taken(ranks, at)
        drawn.partition(middle, axis=1)
        return drawn[:, middle]

    def seeded(seed: int, size: int) -> NDArray[np.int64]:
        from pytest_evals.stats import mersenne_twister

        return mersenne_twister.middles(
            mersenne_twister.key_of(seed), ranks, middle, size
        )

    return ResampledStatistic(counted, seeded, lambda rank: in_order[rank])


def resampled_nanmean(values: Sequence[float]) -> Statistic:
    """Return the mean of the values that are not NaN; NaN if missing."""
    import numpy as np

    array = np.asarray(values, dtype=np.float64)
    present = ~np.isnan(array)
    if present.all():
        return resampled_mean(values)
    columns = [present, np.where(present, array, 0.0)]

    def finish(sums: NDArray[np.float64]) -> Replicates:
        count, total = sums.T
        return np.where(count > 0, total / np.maximum(count, 1), np.nan)

    return ResampledStatistic(sums_of(columns), _seeded_sums(columns), finish)


def resampled_f1(
    golds: Sequence[Hashable], predictions: Sequence[Hashable]
) -> Statistic:
    """Return the binary F1 of label 1 as a resampled statistic."""
    import numpy as np

    right = np.array([gold == 1 for gold in golds])
    predicted = np.array([prediction == 1 for prediction in predictions])
    columns = [right & predicted, right ^ predicted]

    def finish(sums: NDArray[np.float64]) -> Replicates:
        hits, misses = sums.T
        either = 2 * hits + misses
        return np.where(either > 0, 2 * hits / np.maximum(either, 1), 0.0)

    return ResampledStatistic(sums_of(columns), _seeded_sums(columns), finish)


def resampled_matthews(
    golds: Sequence[Hashable], predictions: Sequence[Hashable]
) -> Statistic:
    """Return the Matthews correlation coefficient as a resampled statistic."""
    import numpy as np

    labels = {label: i for i, label in enumerate(dict.fromkeys((*golds, *predictions)))}
    pairs = list(zip(golds, predictions, strict=True))
    kinds = {pair: i for i, pair in enumerate(dict.fromkeys(pairs))}
    of_pairs = np.array([kinds[pair] for pair in pairs], dtype=np.int32)
    right = np.zeros((len(kinds), len(labels)))  # (K, L): kind of pair to right label
    predicted = np.zeros((len(kinds), len(labels)))
    same = np.zeros(len(kinds))
    for (gold, prediction), kind in kinds.items():
        right[kind, labels[gold]] = predicted[kind, labels[prediction]] = 1
        same[kind] = gold == prediction
    n = len(pairs)

    def seeded(seed: int, size: int) -> NDArray[np.int64]:
        from pytest_evals.stats import mersenne_twister

        return mersenne_twister.counts(
            mersenne_twister.key_of(seed), of_pairs, len(kinds), size
        )

    def finish(counts: NDArray[Any]) -> Replicates:  # of (B, K)
        golds_of, guesses = counts @ right, counts @ predicted  # (B, L)
        both = (counts @ same) * n - (golds_of * guesses).sum(axis=1)
        spread = (n * n - (golds_of * golds_of).sum(axis=1)) * (
            n * n - (guesses * guesses).sum(axis=1)
        )
        safe = np.where(spread > 0, spread, 1.0)
        return np.where(spread > 0, both / np.sqrt(safe), 0.0)

    return ResampledStatistic(counts_of(of_pairs, len(kinds)), seeded, finish)


def resampled_scores(
    columns: Sequence[ArrayLike], score: Callable[[list[float]], float]
) -> Statistic:
    """Return a function of the columns' sums as a resampled statistic.

    Args:
        columns: (m, n): m numbers for each of n values.
        score: Maps the m sums of a resample to its statistic.
    """
    import numpy as np

    return ResampledStatistic(
        counted=sums_of(columns),
        seeded=_seeded_sums(columns),
        finish=lambda sums: np.array([score(row) for row in sums.tolist()]),
    )
