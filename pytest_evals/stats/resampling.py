"""Statistics of many resamples at once, for the seeded bootstrap.

Each function takes the values of all documents and gives a statistic: (B, n)
positions, as :func:`pytest_evals.stats.bootstrap.draws` makes them, to (B,) replicates;
or the replicates of a whole chunk, drawn in a compiled loop. Without that, what can be
counted is counted: whole numbers are packed next to each other into one 64-bit word, so
that one look-up and one sum a draw add up several of them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from pytest_evals.stats.bootstrap import Draws, Replicates, Statistic

    Sums = Callable[[Draws], NDArray[np.float64]]
    """(B, n) positions to (B, m) sums of m columns."""
    Seeded = Callable[[int, int], NDArray[Any]]
    """Seed and number of resamples to what is counted in each: (size, …)."""

__all__ = [
    "Resampled",
    "resampled_f1",
    "resampled_matthews",
    "resampled_mean",
    "resampled_median",
    "resampled_nanmean",
    "resampled_perplexity",
    "resampled_scores",
    "resampled_sums",
]

BITS = 63
"""Bits of a word that sums may use: the last one is the sign."""
WORDS = 3
"""Words that cost less to add up than counting each draw does."""


@dataclass(frozen=True, slots=True)
class Resampled:
    """A statistic that is a function of what is counted in a resample.

    Args:
        counted: Counts by NumPy, in positions that were drawn.
        seeded: Draws and counts by compiled loops.
        finish: (B, …) what was counted to (B,) replicates.
    """

    counted: Callable[[Draws], NDArray[Any]]
    seeded: Seeded
    finish: Callable[[NDArray[Any]], Replicates]

    def __call__(self, at: Draws) -> Replicates:
        """The statistic of each row of positions."""
        return self.finish(self.counted(at))

    def drawn(self, seed: int, size: int) -> Replicates:
        """The statistic of the resamples that this seed gives."""
        return self.finish(self.seeded(seed, size))


class _Word(NamedTuple):
    """Columns of whole numbers in one array.

    Args:
        packed: (n,) int64.
        columns: Which columns these are.
        shifts: Lowest bit of each.
        widths: Bits of each one's largest sum.
    """

    packed: NDArray[np.int64]
    columns: tuple[int, ...]
    shifts: tuple[int, ...]
    widths: tuple[int, ...]


def resampled_sums(columns: Sequence[ArrayLike]) -> Sums:
    """The sum of each column over each resample.

    Args:
        columns: (m, n): m numbers of each of n values.

    Returns:
        (B, n) positions to (B, m) sums; exact for whole numbers from 0.
    """
    import numpy as np

    table = np.asarray(columns, dtype=np.float64)
    whole = [i for i, column in enumerate(table) if _is_whole(column)]
    words = list(_packed(table, whole))
    rest = [i for i in range(len(table)) if i not in whole]

    def sums(at: Draws) -> NDArray[np.float64]:
        out = np.empty((at.shape[0], len(table)))
        for word in words:
            total = _take(word.packed, at).sum(axis=1)
            for i, shift, width in zip(*word[1:], strict=True):
                out[:, i] = (total >> shift) & ((1 << width) - 1)
        for i in rest:
            out[:, i] = _take(table[i], at).sum(axis=1)
        return out

    return sums


def _is_whole(column: NDArray[np.float64]) -> bool:
    import numpy as np

    if not np.isfinite(column).all() or column.min() < 0:
        return False
    largest = float(column.max()) * len(column)
    return largest < 2**53 and bool((column == np.floor(column)).all())


def _packed(table: NDArray[np.float64], whole: Sequence[int]) -> Iterator[_Word]:
    """The whole columns, as many in a word as fit."""
    import numpy as np

    n = table.shape[1]
    widths = {i: max(1, int(table[i].max() * n).bit_length()) for i in whole}
    while widths:
        packed = np.zeros(n, dtype=np.int64)
        columns: list[int] = []
        shifts: list[int] = []
        used = 0
        for i, width in widths.items():
            if used + width <= BITS:
                packed += table[i].astype(np.int64) << used
                columns.append(i)
                shifts.append(used)
                used += width
        own = tuple(widths.pop(i) for i in columns)
        yield _Word(packed, tuple(columns), tuple(shifts), own)


def _take(values: NDArray[Any], at: Draws) -> NDArray[Any]:
    """The values at these positions, in an array that this thread's next call writes
    anew: threads that allocate wait for each other."""
    import numpy as np

    kept = getattr(_SCRATCH, values.dtype.name, None)
    if kept is None or kept.size < at.size:
        kept = np.empty(at.size, dtype=values.dtype)
        setattr(_SCRATCH, values.dtype.name, kept)
    out: NDArray[Any] = kept[: at.size].reshape(at.shape)
    # "clip" spares NumPy the check of bounds, which draws never leave.
    return values.take(at, mode="clip", out=out)


_SCRATCH = threading.local()


def _seeded_sums(columns: Sequence[ArrayLike]) -> Seeded:
    """The sum of each column over each resample, (size, m)."""
    import numpy as np

    table = np.ascontiguousarray(columns, dtype=np.float64)

    def seeded(seed: int, size: int) -> NDArray[np.float64]:
        from pytest_evals.stats import twister

        return twister.sums(twister.key_of(seed), table, size)

    return seeded


def resampled_mean(values: Sequence[float]) -> Statistic:
    """The mean of each resample."""
    return _averaged(values, lambda mean: mean)


def resampled_perplexity(values: Sequence[float]) -> Statistic:
    """``exp(-mean)`` of each resample of log-probabilities in nats."""
    import numpy as np

    return _averaged(values, lambda mean: np.exp(-mean))


def _averaged(
    values: Sequence[float], finish: Callable[[NDArray[np.float64]], Replicates]
) -> Statistic:
    """A function of the mean."""
    import numpy as np

    array = np.asarray(values, dtype=np.float64)
    return Resampled(
        counted=lambda at: _take(array, at).sum(axis=1, keepdims=True),
        seeded=_seeded_sums([array]),
        finish=lambda sums: finish(sums[:, 0] / len(array)),
    )


def resampled_median(values: Sequence[float]) -> Statistic:
    """The upper median of each resample."""
    import numpy as np

    array = np.asarray(values, dtype=np.float64)
    order = np.argsort(array, kind="stable")
    in_order = array[order]
    # Ranks of 32 bits are parted several times faster than the values themselves.
    ranks = np.empty(len(array), dtype=np.int32)
    ranks[order] = np.arange(len(array), dtype=np.int32)
    middle = len(array) // 2

    def counted(at: Draws) -> NDArray[np.int32]:
        drawn = _take(ranks, at)
        drawn.partition(middle, axis=1)
        return drawn[:, middle]

    def seeded(seed: int, size: int) -> NDArray[np.int64]:
        from pytest_evals.stats import twister

        return twister.middles(twister.key_of(seed), ranks, middle, size)

    return Resampled(counted, seeded, lambda rank: in_order[rank])


def resampled_nanmean(values: Sequence[float]) -> Statistic:
    """The mean of what is not NaN in each resample; NaN when nothing is."""
    import numpy as np

    array = np.asarray(values, dtype=np.float64)
    present = ~np.isnan(array)
    if present.all():
        return resampled_mean(values)
    columns = [present, np.where(present, array, 0.0)]

    def finish(sums: NDArray[np.float64]) -> Replicates:
        count, total = sums.T
        return np.where(count > 0, total / np.maximum(count, 1), np.nan)

    return Resampled(resampled_sums(columns), _seeded_sums(columns), finish)


def resampled_f1(
    golds: Sequence[Hashable], predictions: Sequence[Hashable]
) -> Statistic:
    """Binary F1 of label 1 of each resample."""
    import numpy as np

    right = np.array([gold == 1 for gold in golds])
    said = np.array([prediction == 1 for prediction in predictions])
    columns = [right & said, right ^ said]

    def finish(sums: NDArray[np.float64]) -> Replicates:
        hits, misses = sums.T
        either = 2 * hits + misses
        return np.where(either > 0, 2 * hits / np.maximum(either, 1), 0.0)

    return Resampled(resampled_sums(columns), _seeded_sums(columns), finish)


def resampled_matthews(
    golds: Sequence[Hashable], predictions: Sequence[Hashable]
) -> Statistic:
    """Matthews' correlation coefficient of each resample."""
    import numpy as np

    labels = {label: i for i, label in enumerate(dict.fromkeys((*golds, *predictions)))}
    pairs = list(zip(golds, predictions, strict=True))
    kinds = {pair: i for i, pair in enumerate(dict.fromkeys(pairs))}
    of_pairs = np.array([kinds[pair] for pair in pairs], dtype=np.int32)
    right = np.zeros((len(kinds), len(labels)))  # (K, L): kind of pair to right label
    said = np.zeros((len(kinds), len(labels)))
    same = np.zeros(len(kinds))
    for (gold, prediction), kind in kinds.items():
        right[kind, labels[gold]] = said[kind, labels[prediction]] = 1
        same[kind] = gold == prediction
    n = len(pairs)

    def seeded(seed: int, size: int) -> NDArray[np.int64]:
        from pytest_evals.stats import twister

        return twister.counts(twister.key_of(seed), of_pairs, len(kinds), size)

    def finish(counts: NDArray[Any]) -> Replicates:  # of (B, K)
        rights, saids = counts @ right, counts @ said  # (B, L)
        both = (counts @ same) * n - (rights * saids).sum(axis=1)
        spread = (n * n - (rights * rights).sum(axis=1)) * (
            n * n - (saids * saids).sum(axis=1)
        )
        safe = np.where(spread > 0, spread, 1.0)
        return np.where(spread > 0, both / np.sqrt(safe), 0.0)

    return Resampled(_counted(of_pairs, len(kinds)), seeded, finish)


def _counted(kinds: NDArray[np.int32], n_kinds: int) -> Sums:
    """(B, n) positions to (B, n_kinds): how often each resample has each kind."""
    import numpy as np

    per_word = BITS // len(kinds).bit_length()
    if n_kinds <= 1 + WORDS * per_word:
        # One column is left out, since the others tell what it is.
        sums = resampled_sums([kinds == kind for kind in range(n_kinds)][1:] or [kinds])

        def summed(at: Draws) -> NDArray[np.float64]:
            others = sums(at)[:, : n_kinds - 1]
            first = at.shape[1] - others.sum(axis=1, keepdims=True)
            return np.concatenate([first, others], axis=1)

        return summed

    def counted(at: Draws) -> NDArray[np.float64]:
        n_rows = at.shape[0]
        offset = np.arange(n_rows, dtype=np.intp)[:, None] * n_kinds
        flat = (_take(kinds, at) + offset).ravel()
        counts = np.bincount(flat, minlength=n_rows * n_kinds)
        return counts.reshape(n_rows, n_kinds).astype(np.float64)

    return counted


def resampled_scores(
    columns: Sequence[ArrayLike], score: Callable[[list[float]], float]
) -> Statistic:
    """A function of the columns' sums, of each resample.

    Args:
        columns: (m, n): m numbers of each of n values.
        score: The m sums of a resample to its statistic.
    """
    import numpy as np

    return Resampled(
        counted=resampled_sums(columns),
        seeded=_seeded_sums(columns),
        finish=lambda sums: np.array([score(row) for row in sums.tolist()]),
    )
