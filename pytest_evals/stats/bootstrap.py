"""The seeded bootstrap: standard errors of statistics that have no formula.

Numbers in, numbers out; knows no document and no metric. The draws are those of lm-eval
0.4.13 (``lm_eval.api.metrics.bootstrap_stderr``): replicates come in chunks of 1,000,
and chunk *i* resamples with ``random.Random(i).choices``. NumPy's ``RandomState``,
seeded with the array ``[i]``, is that same Mersenne Twister, so that whole blocks of
draws are made and counted at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Draws = NDArray[np.intp]
    """(B, n) positions: each row is one resample of n values."""
    Replicates = NDArray[np.float64]
    """(B,) the statistic of each resample."""

__all__ = [
    "ITERATIONS",
    "bootstrap_stderr",
    "draws",
    "resampled_f1",
    "resampled_matthews",
    "resampled_mean",
    "resampled_median",
    "resampled_nanmean",
    "resampled_perplexity",
]

ITERATIONS = 100_000
"""lm-eval's default number of replicates."""
CHUNK = 1000
"""Replicates that share a seed."""
BLOCK = 1 << 16
"""Draws that are made at once: their arrays stay in a core's cache."""
SERIAL = 1 << 21
"""Draws in total below which threads cost more than they save."""


def bootstrap_stderr(
    n: int, statistic: Callable[[Draws], Replicates], iterations: int = ITERATIONS
) -> float | None:
    """Sample standard deviation of a statistic over resamples of ``n`` values.

    Only whole chunks are run: 1,500 iterations are 1,000. Threads share the chunks;
    the result is the same with any number of them.

    Args:
        n: How many values there are.
        statistic: (B, n) positions to (B,) replicates, as the ``resampled_…`` functions
            give it. Called from several threads.
        iterations: Number of replicates.

    Returns:
        The standard error; ``None`` for fewer than two values or replicates. NaN when a
        replicate is not finite.
    """
    import numpy as np

    if n < 2 or iterations < 2:
        return None
    size = min(CHUNK, iterations)

    def chunk(seed: int) -> Replicates:
        # The error state belongs to a thread, so it is set in here.
        with np.errstate(all="ignore"):
            return np.concatenate([statistic(block) for block in draws(seed, n, size)])

    replicates = np.concatenate(_each(chunk, iterations // size, n * iterations))
    with np.errstate(all="ignore"):
        return float(np.std(replicates, ddof=1))


def _each(
    chunk: Callable[[int], Replicates], n_chunks: int, n_draws: int
) -> list[Replicates]:
    n_threads = min(os.cpu_count() or 1, n_chunks)
    if n_threads == 1 or n_draws < SERIAL:
        return [chunk(seed) for seed in range(n_chunks)]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(chunk, range(n_chunks)))


def draws(seed: int, n: int, size: int) -> Iterator[Draws]:
    """What ``random.Random(seed).choices(range(n), k=n)`` gives, ``size`` times.

    Yields:
        (B, n) positions; the rows of all blocks are the resamples in their order.
    """
    import numpy as np

    # A list, not an integer nor an array of one: those are seeded by another rule.
    generator = np.random.RandomState([seed])
    rows = max(1, BLOCK // n)
    for start in range(0, size, rows):
        block = min(rows, size - start)
        uniform = generator.random_sample((block, n))
        uniform *= n
        yield uniform.astype(np.intp)


def _take(values: NDArray[np.float64], at: Draws) -> NDArray[np.float64]:
    # "clip" spares NumPy the check of bounds, which draws never leave.
    return values.take(at, mode="clip")


def resampled_mean(values: Sequence[float]) -> Callable[[Draws], Replicates]:
    """The mean of each resample."""
    import numpy as np

    array = np.asarray(values, dtype=np.float64)
    return lambda at: _take(array, at).mean(axis=1)


def resampled_perplexity(values: Sequence[float]) -> Callable[[Draws], Replicates]:
    """``exp(-mean)`` of each resample of log-probabilities in nats."""
    import numpy as np

    average = resampled_mean(values)
    return lambda at: np.exp(-average(at))


def resampled_median(values: Sequence[float]) -> Callable[[Draws], Replicates]:
    """The upper median of each resample."""
    import numpy as np

    array = np.asarray(values, dtype=np.float64)
    middle = len(array) // 2
    return lambda at: np.partition(_take(array, at), middle, axis=1)[:, middle]


def resampled_nanmean(values: Sequence[float]) -> Callable[[Draws], Replicates]:
    """The mean of what is not NaN in each resample; NaN when nothing is."""
    import numpy as np

    array = np.asarray(values, dtype=np.float64)
    present = (~np.isnan(array)).astype(np.float64)
    filled = np.nan_to_num(array, nan=0.0, posinf=np.inf, neginf=-np.inf)

    def statistic(at: Draws) -> Replicates:
        count = _take(present, at).sum(axis=1)
        total = _take(filled, at).sum(axis=1)
        return np.where(count > 0, total / np.maximum(count, 1), np.nan)

    return statistic


def resampled_f1(
    golds: Sequence[Hashable], predictions: Sequence[Hashable]
) -> Callable[[Draws], Replicates]:
    """Binary F1 of label 1 of each resample."""
    import numpy as np

    right = np.array([gold == 1 for gold in golds], dtype=np.intp)
    said = np.array([prediction == 1 for prediction in predictions], dtype=np.intp)
    cells = 2 * right + said

    def statistic(at: Draws) -> Replicates:
        counts = _count(cells, 4, at)  # (B, 4): neither, said only, right only, both
        both = 2 * counts[:, 3]
        either = both + counts[:, 1] + counts[:, 2]
        return np.where(either > 0, both / np.maximum(either, 1), 0.0)

    return statistic


def resampled_matthews(
    golds: Sequence[Hashable], predictions: Sequence[Hashable]
) -> Callable[[Draws], Replicates]:
    """Matthews' correlation coefficient of each resample."""
    import numpy as np

    labels = {label: i for i, label in enumerate(dict.fromkeys((*golds, *predictions)))}
    pairs = list(zip(golds, predictions, strict=True))
    kinds = {pair: i for i, pair in enumerate(dict.fromkeys(pairs))}
    cells = np.array([kinds[pair] for pair in pairs], dtype=np.intp)
    right = np.zeros((len(kinds), len(labels)))  # (K, L): kind of pair to right label
    said = np.zeros((len(kinds), len(labels)))
    same = np.zeros(len(kinds))
    for (gold, prediction), kind in kinds.items():
        right[kind, labels[gold]] = said[kind, labels[prediction]] = 1
        same[kind] = gold == prediction
    n = len(pairs)

    def statistic(at: Draws) -> Replicates:
        counts = _count(cells, len(kinds), at).astype(np.float64)  # (B, K)
        rights, saids = counts @ right, counts @ said  # (B, L)
        both = (counts @ same) * n - (rights * saids).sum(axis=1)
        spread = (n * n - (rights * rights).sum(axis=1)) * (
            n * n - (saids * saids).sum(axis=1)
        )
        safe = np.where(spread > 0, spread, 1.0)
        return np.where(spread > 0, both / np.sqrt(safe), 0.0)

    return statistic


def _count(cells: NDArray[np.intp], n_cells: int, at: Draws) -> NDArray[np.intp]:
    """(B, n_cells): how often each resample has each cell."""
    import numpy as np

    n_rows = at.shape[0]
    offset = np.arange(n_rows, dtype=np.intp)[:, None] * n_cells
    flat = (cells.take(at, mode="clip") + offset).ravel()
    counts = np.bincount(flat, minlength=n_rows * n_cells)
    return counts.reshape(n_rows, n_cells)
