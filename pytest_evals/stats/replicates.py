"""Bootstrap confidence limits (percentile and BCa).

The draws are seeded: the same documents give the same interval. The standard error that
lm-eval reports is computed in :mod:`pytest_evals.stats.bootstrap`.
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
"""At 0.95, 200 replicates are beyond each limit."""
N_RESAMPLES = N_REPLICATES // 4
"""Of a statistic that is not computed from sums."""
_BLOCK = 1 << 15
"""Positions per block: their arrays fit into the processor's cache."""
_SERIAL = 1 << 18
"""Size of a table that BLAS multiplies in one thread."""
_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class Replicates:
    """An estimate and its bootstrap replicates, with Efron's corrections (BCa, 1987).

    Args:
        ordered: Its replicates in ascending order.
        bias: z of the fraction of replicates below the value; 0 for plain percentiles.
        acceleration: Rate of change of the standard error with the value; 0 for plain
            percentiles.
    """

    value: float
    ordered: Sequence[float]
    bias: float = 0.0
    acceleration: float = 0.0

    @property
    def stderr(self) -> float:
        """Return the standard deviation of the replicates."""
        mean = math.fsum(self.ordered) / len(self.ordered)
        squares = math.fsum((one - mean) ** 2 for one in self.ordered)
        return math.sqrt(squares / (len(self.ordered) - 1))

    def interval(self, confidence: float) -> ConfidenceInterval:
        """Return two one-sided confidence limits."""
        z = _NORMAL.inv_cdf(confidence)
        return ConfidenceInterval(self._bound(-z), self._bound(z))

    def _bound(self, z: float) -> float:
        reach = self.bias + z
        room = 1 - self.acceleration * reach
        if room <= 0:  # too skewed: no replicate is far enough out
            return self.ordered[-1 if self.acceleration > 0 else 0]
        return self._quantile(_NORMAL.cdf(self.bias + reach / room))

    def _quantile(self, share: float) -> float:
        place = share * (len(self.ordered) - 1)
        below = min(int(place), len(self.ordered) - 2)
        low, high = self.ordered[below], self.ordered[below + 1]
        return low + (place - below) * (high - low)

    def scaled(self, factor: float) -> NormalEstimate:
        """Return a scaled normal estimate: replicates cannot be scaled."""
        return NormalEstimate(self.value, self.stderr / math.sqrt(factor))

    def p_greater(self, bound: float) -> float:
        """Return 1 minus the confidence at which the lower limit equals the bound."""
        return 1 - self.p_less(bound)

    def p_less(self, bound: float) -> float:
        """Return 1 minus the confidence at which the upper limit equals the bound."""
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
    """Bootstrap a statistic of sums over documents.

    Args:
        columns: (m, n): m numbers for each of n documents or clusters.
        score: Maps the m sums to the statistic.
        corrected: Whether to correct for bias and skewness (BCa), which needs a
            statistic that is smooth in its sums.
    """
    import numpy as np

    # Fortran order (by transposing): its products with counts are the fastest.
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
    """Bootstrap any statistic, with plain percentiles. ``statistic`` maps (B, n)
    positions of documents, with repetition, to the statistics of the B rows."""
    import numpy as np

    generator = np.random.default_rng(0)
    size, rows = N_RESAMPLES, max(1, _BLOCK // n)
    found = [
        statistic(generator.integers(0, n, (min(rows, size - done), n)))
        for done in range(0, size, rows)
    ]
    return Replicates(value, _ordered(np.concatenate(found)))


def _counts(n: int) -> Iterator[NDArray[np.float64]]:
    """Yield (B, n) counts of each document in each resample. All share one array, which
    is overwritten: arrays of this size cost more to allocate than to fill."""
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
    """Return (B, n) @ (n, m), computed in parts small enough that BLAS starts no
    threads: their synchronization costs more than they save."""
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
    """Add Efron's corrections: bias (replicates) and acceleration (jackknife)."""
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
