"""Numbers by the bootstrap: many resamples of the documents, and where they fall.

Numbers in, numbers out. The draws are seeded: the same documents give the same
interval. What lm-eval reports as standard error is another module's business
(:mod:`pytest_evals.stats.bootstrap`).
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

from pytest_evals.stats.interval_methods import NormalEstimate
from pytest_evals.stats.intervals import ConfidenceInterval

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pytest_evals.stats.bootstrap import Statistic

N_REPLICATES = 4000
"""Enough that a bound at 0.95 rests on 200 replicates beyond it."""
_BLOCK = 1 << 15
"""Positions that are drawn at once: their arrays stay in the processor's cache."""
_SERIAL = 1 << 18
"""Numbers of a table that BLAS multiplies in one thread."""
_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class Replicates:
    """A number and its replicates, with Efron's corrections (BCa, 1987).

    Args:
        value: The number.
        ordered: Its replicates, the smallest first.
        bias: z of the share of replicates below the value; 0 for plain percentiles.
        acceleration: How its standard error changes with it; 0 for plain percentiles.
    """

    value: float
    ordered: Sequence[float]
    bias: float = 0.0
    acceleration: float = 0.0

    @property
    def stderr(self) -> float:
        """Standard deviation of the replicates."""
        mean = math.fsum(self.ordered) / len(self.ordered)
        squares = math.fsum((one - mean) ** 2 for one in self.ordered)
        return math.sqrt(squares / (len(self.ordered) - 1))

    def interval(self, confidence: float) -> ConfidenceInterval:
        """Two one-sided bounds."""
        z = _NORMAL.inv_cdf(confidence)
        return ConfidenceInterval(self._bound(-z), self._bound(z))

    def _bound(self, z: float) -> float:
        reach = self.bias + z
        room = 1 - self.acceleration * reach
        if room <= 0:  # so skewed that no replicate lies far enough out
            return self.ordered[-1 if self.acceleration > 0 else 0]
        return self._quantile(_NORMAL.cdf(self.bias + reach / room))

    def _quantile(self, share: float) -> float:
        place = share * (len(self.ordered) - 1)
        below = min(int(place), len(self.ordered) - 2)
        low, high = self.ordered[below], self.ordered[below + 1]
        return low + (place - below) * (high - low)

    def scaled(self, factor: float) -> NormalEstimate:
        """By its standard error: replicates cannot be scaled."""
        return NormalEstimate(self.value, self.stderr / math.sqrt(factor))

    def p_greater(self, bound: float) -> float:
        """By the limit that would lie on the bound."""
        return 1 - self.p_less(bound)

    def p_less(self, bound: float) -> float:
        """By the limit that would lie on the bound."""
        n = len(self.ordered)
        below = bisect_left(self.ordered, bound)
        middle = (below + bisect_right(self.ordered, bound)) / 2
        share = min(max(middle, 0.5), n - 0.5) / n
        away = _NORMAL.inv_cdf(share) - self.bias
        room = 1 + self.acceleration * away
        if room <= 0:
            return 1.0 if away < 0 else 0.0
        return 1 - _NORMAL.cdf(away / room - self.bias)


def resample_sums(
    columns: Sequence[Sequence[float]],
    score: Callable[[Sequence[float]], float],
    *,
    corrected: bool,
) -> Replicates:
    """Replicates of a number that is computed from sums over documents.

    Args:
        columns: (m, n): m numbers of each of n documents, or clusters of them.
        score: The m sums to the number.
        corrected: Whether to correct for bias and skewness (BCa); that needs a number
            that is smooth in its sums.
    """
    import numpy as np

    # Transposed, it is in Fortran order: its products with counts are the fastest.
    table = np.ascontiguousarray(columns, dtype=np.float64).T  # (n, m)
    n = len(table)
    totals = table.sum(axis=0)
    value = score(totals.tolist())
    sums = np.concatenate([_product(counts, table) for counts in _counts(n)])
    found = np.array([score(row) for row in sums.tolist()])
    if not corrected:
        return Replicates(value, _ordered(found))
    without = np.array([score(row) for row in (totals - table).tolist()])
    return _corrected(value, found, without)


def resample(n: int, statistic: Statistic, value: float) -> Replicates:
    """Replicates of any statistic, by plain percentiles.

    Args:
        n: Documents.
        statistic: (B, n) positions of documents, some several times in a row, to the
            numbers of the B rows.
        value: The number of all documents.
    """
    import numpy as np

    generator = np.random.default_rng(0)
    size, rows = N_REPLICATES // 4, max(1, _BLOCK // n)
    found = [
        statistic(generator.integers(0, n, (min(rows, size - done), n)))
        for done in range(0, size, rows)
    ]
    return Replicates(value, _ordered(np.concatenate(found)))


def _counts(n: int) -> Iterator[NDArray[np.float64]]:
    """(B, n) how often each resample has each document. All are one array, which is
    written again: arrays of this size cost more to allocate than to fill."""
    import numpy as np

    generator = np.random.default_rng(0)
    rows = max(1, _BLOCK // n)
    kept = np.empty((rows, n))
    for done in range(0, N_REPLICATES, rows):
        counts = kept[: N_REPLICATES - done]
        counts[:] = 0
        for start in range(0, counts.size, _BLOCK):
            at = generator.integers(0, n, min(_BLOCK, counts.size - start))
            if len(counts) > 1:
                at += np.repeat(np.arange(0, counts.size, n), n)
            np.add.at(counts.reshape(-1), at, 1.0)
        yield counts


def _product(
    counts: NDArray[np.float64], table: NDArray[np.float64]
) -> NDArray[np.float64]:
    """(B, n) @ (n, m), in parts for which BLAS starts no threads: their waiting costs
    more than they save."""
    n, m = table.shape
    step = max(1, _SERIAL // m)
    parts = [slice(start, start + step) for start in range(0, n, step)]
    found = counts[:, parts[0]] @ table[parts[0]]
    for part in parts[1:]:
        found += counts[:, part] @ table[part]
    return found


def _ordered(found: NDArray[np.float64]) -> list[float]:
    import numpy as np

    ordered: list[float] = np.sort(found[np.isfinite(found)]).tolist()
    return ordered


def _corrected(
    value: float, found: NDArray[np.float64], without: NDArray[np.float64]
) -> Replicates:
    """Efron's corrections: bias out of the replicates, acceleration out of the
    jackknife."""
    import numpy as np

    found, without = found[np.isfinite(found)], without[np.isfinite(without)]
    n = len(found)
    if not n:
        return Replicates(value, [])
    below = np.count_nonzero(found < value) + np.count_nonzero(found == value) / 2
    bias = _NORMAL.inv_cdf(min(max(below, 0.5), n - 0.5) / n)
    away = without.mean() - without if len(without) else without
    spread = float((away**2).sum())
    skewness = float((away**3).sum()) / (6 * spread**1.5) if spread > 0 else 0.0
    return Replicates(value, _ordered(found), bias, skewness)
