"""Bootstrap confidence limits: percentile and studentized.

The resamples are seeded: the same documents give the same limits. The standard error
that lm-eval reports is computed in :mod:`pytest_evals.scorers.bootstrap`.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pytest_evals.stats.interval_methods import ConfidenceInterval, NormalEstimate

Counts = NDArray[np.float64]
"""(B, n) how often each of n values is in a resample."""
Statistic = Callable[[Counts], NDArray[np.float64]]

N_REPLICATES = 4000  # at 0.95, 200 replicates are beyond each limit
N_RESAMPLES = N_REPLICATES // 4
"""Of a statistic that is not computed from sums."""
N_STUDENTIZED = 1999
_BLOCK = 1 << 15  # counts per block: their arrays fit into the processor's cache
_SERIAL = 1 << 18  # multiplications of a product that BLAS computes in one thread
_MOST_KEPT = 1 << 22  # largest number of counts that are kept
_ROUNDING = 1e-13
_DEGENERATE = 1e-6
"""A resample's standard error below this fraction of the sample's is treated as that of
the sample: in a resample of equal values it is unknown."""


@dataclass(frozen=True, slots=True)
class Replicates:
    """An estimate and its bootstrap replicates, with percentile limits."""

    value: float
    ordered: Sequence[float]  # its replicates in ascending order

    @property
    def stderr(self) -> float:
        """Return the standard deviation of the replicates."""
        return float(np.std(self.ordered, ddof=1))

    def interval(self, confidence: float) -> ConfidenceInterval:
        """Return two one-sided confidence limits."""
        low, high = np.quantile(self.ordered, [1 - confidence, confidence])
        return ConfidenceInterval(float(low), float(high))

    def scaled(self, factor: float) -> NormalEstimate:
        """Return a scaled normal estimate: replicates cannot be scaled."""
        return NormalEstimate(self.value, self.stderr / math.sqrt(factor))

    def p_greater(self, bound: float) -> float:
        """Return the fraction of replicates below the bound."""
        n = len(self.ordered)
        below = bisect_left(self.ordered, bound) + bisect_right(self.ordered, bound)
        return min(max(below / 2, 0.5), n - 0.5) / n

    def p_less(self, bound: float) -> float:
        """Return the fraction of replicates above the bound."""
        return 1 - self.p_greater(bound)


def resample_sums(
    columns: Sequence[Sequence[float]], score: Callable[[Sequence[float]], float]
) -> Replicates:
    """Bootstrap a statistic of sums over documents."""
    table = np.asarray(columns, dtype=np.float64)
    sums = _resampled_sums(table, N_REPLICATES)
    found = np.array([score(row) for row in sums.tolist()])
    return Replicates(score(table.sum(axis=1).tolist()), _ordered(found))


def resample(n: int, statistic: Statistic, value: float) -> Replicates:
    """Bootstrap any statistic, with plain percentiles. ``statistic`` maps (B, n) counts
    of documents to the statistics of the B resamples."""
    found = [statistic(counts) for counts in _resamples(n, N_RESAMPLES)]
    return Replicates(value, _ordered(np.concatenate(found)))


def resampled_one_by_one(
    values: Sequence[Any], number: Callable[[list[Any]], float]
) -> Statistic:
    """Return any function of the values as a resampled statistic."""
    every = range(len(values))

    def statistic(counts: Counts) -> NDArray[np.float64]:
        rows = (np.repeat(every, row.astype(np.intp)).tolist() for row in counts)
        return np.array([number([values[i] for i in row]) for row in rows], dtype=float)

    return statistic


def _resamples(n: int, size: int) -> Iterator[NDArray[np.float64]]:
    """Yield (B, n) counts of each document in each of ``size`` resamples."""
    small = n * size <= _MOST_KEPT
    for counts in _kept(n, size) if small else _drawn(n, size):
        yield counts.astype("float64")


@lru_cache(maxsize=2)
def _kept(n: int, size: int) -> Sequence[NDArray[np.uint16]]:
    """Return the counts, kept for further gates with as many documents."""
    return [counts.astype("uint16") for counts in _drawn(n, size)]


def _drawn(n: int, size: int) -> Iterator[NDArray[np.intp]]:
    generator = np.random.default_rng(0)
    rows = max(1, _BLOCK // n)
    starts = np.repeat(np.arange(0, rows * n, n), n)
    for done in range(0, size, rows):
        n_counts = min(rows, size - done) * n
        at = generator.integers(0, n, n_counts, dtype=np.uint32)
        counts = np.bincount(at + starts[:n_counts], minlength=n_counts)
        yield counts.reshape(-1, n)


def _resampled_sums(table: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """Return the (size, m) sums of the rows of a (m, n) table over each resample.

    The products are computed in parts so small that BLAS starts no threads: their
    synchronization costs more than they save.
    """
    m, n = table.shape
    columns = np.ascontiguousarray(table.T)
    sums = []
    for counts in _resamples(n, size):
        step = max(1, _SERIAL // (m * len(counts)))
        parts = [slice(start, start + step) for start in range(0, n, step)]
        sums.append(sum(counts[:, part] @ columns[part] for part in parts))
    return np.concatenate(sums)


def _ordered(found: NDArray[np.float64]) -> list[float]:
    ordered: list[float] = np.sort(found[np.isfinite(found)]).tolist()
    return ordered


class Quotient(NamedTuple):
    """A ratio of two sums."""

    above: Sequence[float]  # (n,) each unit's contribution to the numerator
    below: Sequence[float]
    """(n,) its contribution to the denominator, which is positive in all resamples."""


@dataclass(frozen=True, slots=True)
class BootstrapT:
    """An estimate with its studentized resamples, as an
    :class:`~.interval_methods.IntervalEstimate`. ``scores``: (resampled estimate -
    estimate) / standard error of the resample, in ascending order."""

    value: float
    stderr: float
    scores: Sequence[float]

    def interval(self, confidence: float) -> ConfidenceInterval:
        """Return the lower and upper confidence limit, each one-sided."""
        low = self.value - self._quantile(confidence) * self.stderr
        high = self.value - self._quantile(1 - confidence) * self.stderr
        return ConfidenceInterval(low, high)

    def _quantile(self, share: float) -> float:
        n = len(self.scores)
        at = math.ceil(share * (n + 1)) if share > 0.5 else math.floor(share * (n + 1))
        return self.scores[min(max(at, 1), n) - 1]

    def p_less(self, bound: float) -> float:
        """Return the fraction of resamples with a score up to that of the bound."""
        at_most = bisect_right(self.scores, self._score(bound))
        return (1 + at_most) / (1 + len(self.scores))

    def p_greater(self, bound: float) -> float:
        """Return the fraction of resamples with a score from that of the bound on."""
        below = bisect_left(self.scores, self._score(bound))
        return (1 + len(self.scores) - below) / (1 + len(self.scores))

    def scaled(self, factor: float) -> BootstrapT:
        """Return the estimate with its standard error over the factor's root."""
        return replace(self, stderr=self.stderr / math.sqrt(factor))

    def _score(self, bound: float) -> float:
        return (self.value - bound) / self.stderr


def bootstrap_t(now: Quotient, before: Quotient | None = None) -> BootstrapT:
    """Estimate a ratio of two sums over units, or its change between two runs.

    The studentized bootstrap (Efron 1979; Hall 1992, "The Bootstrap and Edgeworth
    Expansion", section 3.3): each resample has its own standard error, so skewness of
    the values is corrected to second order, unlike with Student's t.

    Args:
        now: The ratio. The denominator of a mean is all ones.
        before: The same units in another run, to be subtracted.

    Raises:
        ValueError: There are fewer than two units, or they do not vary.
    """
    quotients = [now] if before is None else [now, before]
    columns = np.array([side for one in quotients for side in one], dtype=np.float64)
    m, n = columns.shape
    if n < 2:
        raise ValueError(f"needs at least 2 documents, got {n}")
    # (m + m * m, n): the columns and their products, whose sums give value and stderr
    table = np.vstack([columns, *(columns * row for row in columns)])
    (value,), _ = _moments(table.sum(axis=1)[None], n, m)
    stderr, scale = _exact_stderr(columns), np.abs(columns[::2]).mean(axis=1).max()
    if not stderr > _ROUNDING * scale:
        raise ValueError("no document differs")
    values, errors = _moments(_resampled_sums(table, N_STUDENTIZED), n, m)
    scores = (values - value) / np.where(errors > _DEGENERATE * stderr, errors, stderr)
    return BootstrapT(float(value), stderr, np.sort(scores).tolist())


def _exact_stderr(columns: NDArray[np.float64]) -> float:
    """Return the delta method's standard error from each unit's influence, which avoids
    cancellation in sums of squares."""
    influence = np.zeros(columns.shape[1])
    for sign, above, below in zip((1, -1), columns[::2], columns[1::2], strict=False):
        total = below.sum()
        influence += sign * (above - above.sum() / total * below) / total
    n = len(influence)
    return float(np.sqrt((influence**2).sum() * n / (n - 1)))


def _moments(
    sums: NDArray[np.float64], n: int, m: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the estimate and its standard error (delta method) for each row of sums.
    ``sums``: (b, m + m * m) sums of m columns and of their products."""
    above, below = sums[:, 0:m:2], sums[:, 1:m:2]
    ratios = above / below
    signs = np.array([1.0, -1.0])[: m // 2]
    gradient = np.empty((len(sums), m))
    gradient[:, 0::2] = signs / below
    gradient[:, 1::2] = -signs * ratios / below
    products = sums[:, m:].reshape(-1, m, m)
    square = np.einsum("bi,bij,bj->b", gradient, products, gradient)
    return ratios @ signs, np.sqrt(np.maximum(square, 0.0) * n / (n - 1))
