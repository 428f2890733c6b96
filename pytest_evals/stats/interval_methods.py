"""Estimates with one-sided confidence limits and p-values.

Every :class:`IntervalEstimate` has the same interface: proportions, means, differences
and bootstrap replicates. Each limit is one-sided at its own level: with confidence
0.95, the true value is below the lower limit in at most 5% of samples, and above the
upper limit in at most 5%. Together the limits form a 90% confidence interval.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import NamedTuple, Protocol

from pytest_evals.stats.beta import beta_cdf, beta_quantile, beta_sf


class ConfidenceInterval(NamedTuple):
    """Two one-sided confidence limits."""

    low: float
    high: float


class IntervalEstimate(Protocol):
    """An estimate with its uncertainty."""

    @property
    def value(self) -> float:
        """Return the point estimate."""
        ...

    @property
    def stderr(self) -> float:
        """Return the standard error, which is approximate for skewed distributions."""
        ...

    def interval(self, confidence: float) -> ConfidenceInterval:
        """Return the lower and upper limit, each one-sided at this confidence."""
        ...

    def p_less(self, bound: float) -> float:
        """Return the one-sided p-value of "the true value is less than the bound".

        It is below 1 - confidence exactly if the upper confidence limit is below the
        bound.
        """
        ...

    def p_greater(self, bound: float) -> float:
        """Return the one-sided p-value of "the value is greater than the bound"."""
        ...

    def scaled(self, factor: float) -> IntervalEstimate:
        """Return the same estimate with the sample size multiplied by this factor."""
        ...


@dataclass(frozen=True, slots=True)
class Proportion:
    """A proportion of independent documents, with exact binomial limits."""

    total: float  # number of successes; may be fractional when planning
    n: float  # number of documents, at least 1

    @property
    def value(self) -> float:
        """Return the proportion."""
        return self.total / self.n

    @property
    def stderr(self) -> float:
        """Return the Wald standard error; 0 at 0 and 1."""
        return math.sqrt(self.value * (1 - self.value) / self.n)

    def interval(self, confidence: float) -> ConfidenceInterval:
        """Return the Clopper-Pearson limits (1934)."""
        k, n, alpha = self.total, self.n, 1 - confidence
        low = beta_quantile(k, n - k + 1, alpha) if k else 0.0
        high = beta_quantile(k + 1, n - k, confidence) if k < n else 1.0
        return ConfidenceInterval(low, high)

    def p_less(self, bound: float) -> float:
        """Return P(X <= total) for n documents with the bound as probability."""
        if bound > 1:
            return 0.0
        if self.total >= self.n or bound <= 0:
            return 1.0
        return beta_sf(self.total + 1, self.n - self.total, bound)

    def p_greater(self, bound: float) -> float:
        """Return P(X >= total) for n documents with the bound as probability."""
        if bound < 0:
            return 0.0
        if self.total <= 0 or bound >= 1:
            return 1.0
        return beta_cdf(self.total, self.n - self.total + 1, bound)

    def scaled(self, factor: float) -> Proportion:
        """Return the same proportion with the sample size multiplied by this factor."""
        return Proportion(self.total * factor, self.n * factor)


@dataclass(frozen=True, slots=True)
class NormalEstimate:
    """An estimate with normal error and a known or estimated standard error."""

    value: float
    stderr: float
    df: float = math.inf
    """Degrees of freedom of the standard error; infinite if it is known."""
    low: float = -math.inf  # smallest possible value; limits are clipped to it
    high: float = math.inf  # largest possible value

    def interval(self, confidence: float) -> ConfidenceInterval:
        """Return the limits of Student's t; of the normal distribution if the standard
        error is known."""
        reach = self.stderr and quantile(confidence, self.df) * self.stderr
        low, high = self.value - reach, self.value + reach
        return ConfidenceInterval(max(low, self.low), min(high, self.high))

    def p_less(self, bound: float) -> float:
        """Return the p-value from the same distribution."""
        return self._cumulative(self.value - bound)

    def p_greater(self, bound: float) -> float:
        """Return the p-value from the same distribution."""
        return self._cumulative(bound - self.value)

    def _cumulative(self, away: float) -> float:
        if self.stderr == 0:
            return float(away >= 0)
        if math.isinf(self.df):
            return NormalDist().cdf(away / self.stderr)
        from scipy.special import stdtr

        return float(stdtr(self.df, away / self.stderr))

    def scaled(self, factor: float) -> NormalEstimate:
        """Return the estimate with its standard error over the factor's root."""
        stderr = self.stderr / math.sqrt(factor)
        return replace(self, stderr=stderr, df=self.df * factor)


def quantile(confidence: float, df: float) -> float:
    """Return the quantile of Student's t; normal if ``df`` is infinite."""
    if math.isinf(df):
        return NormalDist().inv_cdf(confidence)
    from scipy.special import stdtrit

    return float(stdtrit(df, confidence))


@dataclass(frozen=True, slots=True)
class ExactValue(NormalEstimate):
    """A value without uncertainty."""

    value: float = 0.0
    stderr: float = 0.0


@dataclass(frozen=True, slots=True)
class WidestInterval:
    """The most conservative of several methods for one estimate."""

    methods: tuple[IntervalEstimate, ...]  # at least one
    center: float | None = None  # the estimate; by default that of the first method

    @property
    def value(self) -> float:
        """Return the estimate."""
        return self.methods[0].value if self.center is None else self.center

    @property
    def stderr(self) -> float:
        """Return the largest standard error."""
        return max(one.stderr for one in self.methods)

    def interval(self, confidence: float) -> ConfidenceInterval:
        """Return the lowest lower limit and the highest upper limit."""
        limits = [one.interval(confidence) for one in self.methods]
        return ConfidenceInterval(
            min(one.low for one in limits), max(one.high for one in limits)
        )

    def p_less(self, bound: float) -> float:
        """Return the largest p-value."""
        return max(one.p_less(bound) for one in self.methods)

    def p_greater(self, bound: float) -> float:
        """Return the largest p-value."""
        return max(one.p_greater(bound) for one in self.methods)

    def scaled(self, factor: float) -> WidestInterval:
        """Return each method with the sample size multiplied by this factor."""
        methods = tuple(one.scaled(factor) for one in self.methods)
        return WidestInterval(methods, self.center)
