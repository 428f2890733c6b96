"""Confidence limits of means and ratios of unbounded, possibly skewed values.

The studentized bootstrap (Efron 1979; Hall 1992, "The Bootstrap and Edgeworth
Expansion", section 3.3): each resample has its own standard error, so skewness of the
values is corrected to second order, unlike with Student's t.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from pytest_evals.stats.intervals import ConfidenceInterval

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

N_RESAMPLES = 1999
_CHUNK = 2_000_000
"""Draws held in memory at once."""
_ROUNDING = 1e-13
_DEGENERATE = 1e-6
"""A resample's standard error below this fraction of the sample's is treated as that of
the sample: in a resample of equal values it is unknown."""


class Quotient(NamedTuple):
    """A ratio of two sums.

    Args:
        above: (n,) each unit's contribution to the numerator.
        below: (n,) its contribution to the denominator, which is positive in all
            resamples.
    """

    above: Sequence[float]
    below: Sequence[float]


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
        """Return the fraction of resamples with a score at most the distance to the
        bound."""
        return (1 + bisect_right(self.scores, self._score(bound))) / self._n

    def p_greater(self, bound: float) -> float:
        """Return the fraction of resamples with a score at least the distance to the
        bound."""
        below = bisect_left(self.scores, self._score(bound))
        return (1 + len(self.scores) - below) / self._n

    def scaled(self, factor: float) -> BootstrapT:
        """Return the estimate with the standard error divided by the square root of the
        factor."""
        return replace(self, stderr=self.stderr / math.sqrt(factor))

    def _score(self, bound: float) -> float:
        return (self.value - bound) / self.stderr

    @property
    def _n(self) -> int:
        return len(self.scores) + 1


def bootstrap_t(now: Quotient, before: Quotient | None = None) -> BootstrapT:
    """Estimate a ratio of two sums over units, or its change between two runs.

    Args:
        now: The ratio. The denominator of a mean is all ones.
        before: The same units in another run, to be subtracted.

    Raises:
        ValueError: There are fewer than two units, or they do not vary.
    """
    import numpy as np

    quotients = [now] if before is None else [now, before]
    columns = np.array([side for one in quotients for side in one], dtype=np.float64)
    n = columns.shape[1]
    if n < 2:
        raise ValueError(f"needs at least 2 documents, got {n}")
    # (m + m * m, n): the columns and their products, whose sums give value and stderr
    table = np.vstack([columns, *(columns * row for row in columns)])
    value, _ = _moments(table.sum(axis=1)[None], n, len(columns))
    stderr, scale = _exact_stderr(columns), np.abs(columns[::2]).mean(axis=1).max()
    if not stderr > _ROUNDING * scale:
        raise ValueError("no document differs")
    generator = np.random.default_rng(0)
    scores: list[float] = []
    while len(scores) < N_RESAMPLES:
        rows = min(N_RESAMPLES - len(scores), max(1, _CHUNK // n))
        counts = generator.multinomial(n, np.full(n, 1 / n), size=rows).astype(float)
        values, errors = _moments(counts @ table.T, n, len(columns))
        away = values - value[0]
        with np.errstate(divide="ignore", invalid="ignore"):
            found = np.where(
                errors > _DEGENERATE * stderr, away / errors, away / stderr
            )
        scores += found[~np.isnan(found)].tolist()
    return BootstrapT(float(value[0]), stderr, tuple(sorted(scores)))


def _exact_stderr(columns: NDArray[np.float64]) -> float:
    """Return the delta method's standard error from each unit's influence, which avoids
    cancellation in sums of squares."""
    import numpy as np

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

    Args:
        sums: (b, m + m * m) sums of m columns and of their products.
        m: Number of columns: numerator and denominator of each ratio.
    """
    import numpy as np

    above, below = sums[:, 0:m:2], sums[:, 1:m:2]
    ratios = above / below
    signs = np.array([1.0, -1.0])[: m // 2]
    gradient = np.empty((len(sums), m))
    gradient[:, 0::2] = signs / below
    gradient[:, 1::2] = -signs * ratios / below
    products = sums[:, m:].reshape(-1, m, m)
    square = np.einsum("bi,bij,bj->b", gradient, products, gradient)
    return ratios @ signs, np.sqrt(np.maximum(square, 0.0) * n / (n - 1))
