"""Numbers with their uncertainty: one-sided confidence limits and p-values.

Floats in, floats out. Each :class:`IntervalEstimate` answers the same questions, whatever it is
made of: a proportion, a mean, a difference, many bootstrap replicates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Protocol

from pytest_evals.stats.intervals import ConfidenceInterval, cumulative, student


class IntervalEstimate(Protocol):
    """A number with its uncertainty."""

    @property
    def value(self) -> float:
        """The number."""
        ...

    @property
    def stderr(self) -> float:
        """Its standard error, approximate for skewed distributions."""
        ...

    def interval(self, confidence: float) -> ConfidenceInterval:
        """Lower and upper confidence limit, each one-sided at that confidence."""
        ...

    def p_less(self, bound: float) -> float:
        """One-sided p-value of "the true number is less than the bound".

        Below 1 - confidence exactly if the upper confidence limit is below the bound.
        """
        ...

    def p_greater(self, bound: float) -> float:
        """One-sided p-value of "the true number is greater than the bound"."""
        ...

    def scaled(self, factor: float) -> IntervalEstimate:
        """The same number over so many times as many documents like these."""
        ...


@dataclass(frozen=True, slots=True)
class Proportion:
    """A proportion of independent documents, by the exact binomial test.

    Args:
        total: Documents that count; a fraction in plans.
        n: All documents, at least 1.
    """

    total: float
    n: float

    @property
    def value(self) -> float:
        """The proportion."""
        return self.total / self.n

    @property
    def stderr(self) -> float:
        """Wald's standard error; 0 at 0 and 1."""
        return math.sqrt(self.value * (1 - self.value) / self.n)

    def interval(self, confidence: float) -> ConfidenceInterval:
        """Limits of Clopper and Pearson (1934)."""
        from scipy.special import betaincinv

        k, n, alpha = self.total, self.n, 1 - confidence
        low = float(betaincinv(k, n - k + 1, alpha)) if k else 0.0
        high = float(betaincinv(k + 1, n - k, confidence)) if k < n else 1.0
        return ConfidenceInterval(low, high)

    def p_less(self, bound: float) -> float:
        """P(X <= total) for n documents with the bound as probability."""
        if bound > 1:
            return 0.0
        if self.total >= self.n or bound <= 0:
            return 1.0
        from scipy.special import betaincc

        return float(betaincc(self.total + 1, self.n - self.total, bound))

    def p_greater(self, bound: float) -> float:
        """P(X >= total) for n documents with the bound as probability."""
        if bound < 0:
            return 0.0
        if self.total <= 0 or bound >= 1:
            return 1.0
        from scipy.special import betainc

        return float(betainc(self.total, self.n - self.total + 1, bound))

    def scaled(self, factor: float) -> Proportion:
        """The same proportion of so many times as many documents."""
        return Proportion(self.total * factor, self.n * factor)


@dataclass(frozen=True, slots=True)
class NormalEstimate:
    """A number with a normal error of known or estimated standard error.

    Args:
        value: The number.
        stderr: Its standard error.
        df: Degrees of freedom of the standard error; infinite if it is known.
        low: Smallest possible value; limits are cut there.
        high: Largest possible value.
    """

    value: float
    stderr: float
    df: float = math.inf
    low: float = -math.inf
    high: float = math.inf

    def interval(self, confidence: float) -> ConfidenceInterval:
        """Student's t; the normal distribution if the standard error is known."""
        low, high = student(self.value, self.stderr, self.df, confidence)
        return ConfidenceInterval(max(low, self.low), min(high, self.high))

    def p_less(self, bound: float) -> float:
        """By the same distribution."""
        if self.stderr == 0:
            return 1.0 if self.value >= bound else 0.0
        return cumulative((self.value - bound) / self.stderr, self.df)

    def p_greater(self, bound: float) -> float:
        """By the same distribution."""
        if self.stderr == 0:
            return 1.0 if self.value <= bound else 0.0
        return cumulative((bound - self.value) / self.stderr, self.df)

    def scaled(self, factor: float) -> NormalEstimate:
        """A standard error that is smaller by the root of the factor."""
        stderr = self.stderr / math.sqrt(factor)
        return replace(self, stderr=stderr, df=self.df * factor)


@dataclass(frozen=True, slots=True)
class ExactValue:
    """A number without any uncertainty."""

    value: float = 0.0

    @property
    def stderr(self) -> float:
        """Zero."""
        return 0.0

    def interval(self, confidence: float) -> ConfidenceInterval:
        """The number itself."""
        return ConfidenceInterval(self.value, self.value)

    def p_less(self, bound: float) -> float:
        """0 or 1."""
        return 1.0 if self.value >= bound else 0.0

    def p_greater(self, bound: float) -> float:
        """0 or 1."""
        return 1.0 if self.value <= bound else 0.0

    def scaled(self, factor: float) -> ExactValue:
        """The number itself."""
        return self


@dataclass(frozen=True, slots=True)
class WidestInterval:
    """One number by several methods, of which the least certain one counts.

    Args:
        methods: At least one; all have the same value.
    """

    methods: tuple[IntervalEstimate, ...]

    @property
    def value(self) -> float:
        """The number."""
        return self.methods[0].value

    @property
    def stderr(self) -> float:
        """The largest standard error."""
        return max(one.stderr for one in self.methods)

    def interval(self, confidence: float) -> ConfidenceInterval:
        """The lowest lower limit and the highest upper limit."""
        limits = [one.interval(confidence) for one in self.methods]
        return ConfidenceInterval(
            min(one.low for one in limits), max(one.high for one in limits)
        )

    def p_less(self, bound: float) -> float:
        """The largest p-value."""
        return max(one.p_less(bound) for one in self.methods)

    def p_greater(self, bound: float) -> float:
        """The largest p-value."""
        return max(one.p_greater(bound) for one in self.methods)

    def scaled(self, factor: float) -> WidestInterval:
        """Each method over so many times as many documents."""
        return WidestInterval(tuple(one.scaled(factor) for one in self.methods))
