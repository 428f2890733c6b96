"""One-sided confidence limits of a mean whose values are in a known range, and of a
ratio of sums whose documents are of a few known kinds: F1, precision, recall.

The rule is Gaffke's (2005, "Three test statistics for a nonparametric one-sided
hypothesis on the mean of a nonnegative variable"): assign independent exponential
weights to the n values and to one pseudo-value at the end of the range. The upper limit
at confidence 1 - alpha is the 1 - alpha quantile of the weighted mean with the
pseudo-value at the upper end; the lower limit is the alpha quantile with it at the
lower end. For values of 0 and 1 these are the exact limits of Clopper and Pearson
(1934).

A ratio A / B is at least t if the mean of a - t b is at least 0. Its pseudo-document is
of the kind with the smallest or the largest a - t b. For F1 and independent documents,
these limits are those of Clopper and Pearson for true positives among all documents but
the true negatives.

Dependent values are grouped into clusters: the values of a cluster share one weight,
and the pseudo-value has the size of the cluster of a typical document. The limits are
never narrower than those of independent values.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from pytest_evals.stats.averages import Labels
from pytest_evals.stats.interval_methods import (
    ConfidenceInterval,
    WidestInterval,
    limit_where,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

MOST_DISTINCT = 512  # maximum number of distinct values; more are binned by their mean
_TOLERANCE = 1e-10  # tolerance of confidence limits, relative to the range
_ROUNDING = 1e-13


Kinds = Sequence[tuple[float, float]]
"""The extreme documents: what each adds to the numerator and to the denominator."""


class GaffkeLimits:
    """Confidence limits and p-values, from weights of coefficients at a bound."""

    value: float
    stderr: float
    low: float
    high: float

    @property
    def n_units(self) -> int:
        """Return the number of distinct units."""
        raise NotImplementedError

    def coefficients(self, bound: float) -> tuple[Numbers, Numbers, Numbers]:
        """Return the units' coefficients, their counts, and those of pseudo-units at
        the extremes; positive ones are evidence of a larger number."""
        raise NotImplementedError

    def p_less(self, bound: float) -> float:
        """Return the p-value of "the true mean is less than the bound"."""
        return self._p_value(bound, -1.0)

    def p_greater(self, bound: float) -> float:
        """Return the p-value of "the true mean is greater than the bound"."""
        return self._p_value(bound, 1.0)

    def _p_value(self, bound: float, sign: float) -> float:
        import numpy as np

        from pytest_evals.stats.exponential_sums import probability_not_positive

        if not self.low <= bound <= self.high:
            return 0.0 if (bound < self.low) == (sign > 0) else 1.0
        units, counts, extremes = self.coefficients(bound)
        away = np.append(sign * units, (sign * extremes).min())
        # Rounding must not make a value that equals the bound differ from it.
        away[np.abs(away) <= _ROUNDING * (self.high - self.low)] = 0.0
        return probability_not_positive(away, np.append(counts, 1.0))

    def interval(self, confidence: float) -> ConfidenceInterval:
        """Return the lower and upper limit, each one-sided and in the range."""
        alpha = 1 - confidence
        return ConfidenceInterval(
            self._limit(self.p_greater, self.low, alpha),
            self._limit(self.p_less, self.high, alpha),
        )

    def _limit(
        self, p_value: Callable[[float], float], end: float, alpha: float
    ) -> float:
        width = self.high - self.low
        reach = 5 * (self.stderr + width / self.n_units)
        far = self.value + math.copysign(reach, end - self.value)
        is_far = self.low < far < self.high and p_value(far) < alpha
        outer = far if is_far else end
        return limit_where(p_value, alpha, self.value, outer, _TOLERANCE * width)


@dataclass(frozen=True)
class BoundedMean(GaffkeLimits):
    """The mean of values in a known range, or a ratio of sums, as an
    :class:`~.interval_methods.IntervalEstimate`."""

    value: float
    stderr: float  # its standard error; cluster-robust if there are clusters
    low: float
    high: float
    units: tuple[tuple[float, float, float], ...]
    """Independent units, merged by equal sum and size: (sum, size, count) each. The
    size is the contribution to the denominator."""
    kinds: Kinds  # the extreme documents; of a mean, ``low`` and ``high``
    pseudo_size: float
    """Documents of a pseudo-unit: those in the unit of an average one."""

    @cached_property
    def table(self) -> Numbers:
        """(3, m) sums, sizes and counts of the units."""
        import numpy as np

        return np.array(self.units, dtype=np.float64).T

    @property
    def n_units(self) -> int:
        """Return the number of distinct units."""
        return len(self.units)

    def extremes(self, bound: float) -> Numbers:
        """Return the coefficients of the pseudo-units."""
        import numpy as np

        kinds = np.array(self.kinds, dtype=np.float64)
        return (kinds[:, 0] - bound * kinds[:, 1]) * self.pseudo_size

    def coefficients(self, bound: float) -> tuple[Numbers, Numbers, Numbers]:
        """Return those of the units around the bound."""
        sums, sizes, counts = self.table
        return sums - bound * sizes, counts, self.extremes(bound)

    def scaled(self, factor: float) -> BoundedMean:
        """Return the estimate with the count of each unit multiplied by this factor."""
        return replace(
            self,
            stderr=self.stderr / math.sqrt(factor),
            units=tuple((s, size, n * factor) for s, size, n in self.units),
        )


def bounded_mean(
    values: Sequence[float],
    *,
    low: float = 0.0,
    high: float = 1.0,
    clusters: Labels = None,
) -> BoundedMean | WidestInterval:
    """Estimate the mean of values in a known range, with confidence limits.

    Args:
        high: Upper end of the range, more than ``low``.
        clusters: (n,) cluster label of each value; ``None`` if the values are
            independent. With clusters, the wider of the clustered and the independent
            limits are used.

    Raises:
        ValueError: A value is outside the range.
    """
    import numpy as np

    array = np.asarray(values, dtype=np.float64)
    inside = (array >= low) & (array <= high)
    if not inside.all():
        outside = values[int(np.argmin(inside))]
        raise ValueError(f"{outside!r} is outside of the range [{low:g}, {high:g}]")
    kinds = [(low, 1.0), (high, 1.0)]
    if clusters is not None:
        documents = [(float(value), 1.0) for value in values]
        return _clustered(documents, kinds, clusters)
    value = math.fsum(values) / len(array)
    distinct, found = np.unique(array, return_counts=True)
    counts = found.astype(np.float64)
    square = math.fsum(counts * (distinct - value) ** 2)
    if len(distinct) > MOST_DISTINCT:
        distinct, counts = binned(distinct, counts)
    rows = zip(distinct.tolist(), counts.tolist(), strict=True)
    units = [(one, 1.0, n) for one, n in rows]
    return _of_moments(len(array), value, square, units, kinds)


def binned(numbers: Numbers, counts: Numbers) -> tuple[Numbers, Numbers]:
    """Return fewer numbers, the means of nearly equal ones, and their counts."""
    import numpy as np

    away = (numbers - numbers.min()) / np.ptp(numbers)
    at = np.rint(away * MOST_DISTINCT).astype(int)
    n = np.bincount(at, counts)
    means = np.bincount(at, numbers * counts)[n > 0] / n[n > 0]
    return means, n[n > 0].astype(np.float64)


def bounded_ratio(
    documents: Sequence[tuple[float, float]], kinds: Kinds, clusters: Labels = None
) -> BoundedMean | WidestInterval:
    """Estimate a ratio of two sums over documents of known kinds, with confidence
    limits. ``kinds``: the possible contributions of one document, with denominators
    above 0. Raises ``ValueError`` if the denominator is 0."""
    if not any(below for _, below in documents):
        raise ValueError("no document counts in its denominator")
    return _clustered(documents, kinds, clusters)


def _clustered(
    documents: Sequence[tuple[float, float]], kinds: Kinds, clusters: Labels
) -> BoundedMean | WidestInterval:
    independent = _of_units([(*one, 1) for one in documents], kinds)
    if clusters is None:
        return independent
    units: dict[Hashable, tuple[float, float, int]] = {}
    for (above, below), label in zip(documents, clusters, strict=True):
        total, size, n = units.get(label, (0.0, 0.0, 0))
        units[label] = (total + above, size + below, n + 1)
    return WidestInterval((_of_units([*units.values()], kinds), independent))


def _of_units(units: Sequence[tuple[float, float, int]], kinds: Kinds) -> BoundedMean:
    """Return the ratio over units of (numerator, denominator, documents)."""
    size = math.fsum(below for _, below, _ in units)
    value = math.fsum(above for above, _, _ in units) / size
    square = math.fsum((above - value * below) ** 2 for above, below, _ in units)
    n_documents = sum(count for _, _, count in units)
    counts = Counter((above, below) for above, below, _ in units if below)
    rows = [(*unit, float(count)) for unit, count in sorted(counts.items())]
    square *= (len(units) / size) ** 2
    found = _of_moments(len(units), value, square, rows, kinds)
    pseudo_size = sum(count * count for _, _, count in units) / n_documents
    return replace(found, pseudo_size=pseudo_size)


def _of_moments(
    n: int,
    value: float,
    square: float,
    units: Sequence[tuple[float, float, float]],
    kinds: Kinds,
) -> BoundedMean:
    """Return the estimate of n units. ``square``: the sum of their squared
    deviations, for units of an average size of 1."""
    ends = [above / below for above, below in kinds]
    low, high = min(ends), max(ends)
    return BoundedMean(
        value=min(high, max(low, value)),
        stderr=math.sqrt(square * n / (n - 1)) / n if n > 1 else 0.0,
        low=low,
        high=high,
        units=tuple(units),
        kinds=tuple(kinds),
        pseudo_size=1.0,
    )
