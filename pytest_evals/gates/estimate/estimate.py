"""The estimate of a gate: a number with its uncertainty, for all sampling designs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from pytest_evals.core.gate import Interval, Unit
from pytest_evals.stats.interval_methods import ExactValue, IntervalEstimate
from pytest_evals.stats.paired_proportions import PairedProportions

Value = Fraction | float
FEW_CLUSTERS = 20
NEGLIGIBLE = 1e-12
"""Relative size of differences that are rounding errors."""
NO_VARIANCE = "no document differs"
"""The method of an estimate without variance."""
_LARGEST_LOG = 700.0
"""Larger exponents overflow a double."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateEstimate:
    """A number with its uncertainty.

    Args:
        value: Exact if documents are counted, else a double.
        n: Number of scored documents.
        count: Number of documents with value 1, ``None`` if the value is not their
            share.
        n_errored: Number of documents with an error.
        n_unscored: Number of documents without a score value.
        spread: Confidence limits and p-values, on ``scale``; ``None`` if the gate
            compares the number only.
        method: Name of their method.
        scale: Scale of ``spread``: that of ``value``, its logarithm, or log(1 + value).
        range: Smallest and largest possible value.
        notes: Remarks on the estimate, one line each.
        n_labels: Number of human labels that correct a judge; confidence limits are
            then compared for every inference target.
        n_whole: Documents of the benchmark, if only a sample was run and the others
            are known from a baseline; 0 otherwise.
        judge_limits: Confidence limits over this run's documents, which cover the
            judge's error only.
    """

    value: Value
    n: int = 0
    count: int | None = None
    n_errored: int = 0
    n_unscored: int = 0
    spread: IntervalEstimate | None = None
    method: str = ""
    scale: Literal["plain", "log", "log1p"] = "plain"
    range: tuple[float, float] = (-math.inf, math.inf)
    notes: tuple[str, ...] = ()
    n_labels: int = 0
    n_whole: int = 0
    judge_limits: tuple[float, float] = (-math.inf, math.inf)

    @property
    def is_share(self) -> bool:
        """Whether it is a share of documents: each value is 0 or 1, and the metric's
        range is known to be that."""
        return self.count is not None and self.range == (0.0, 1.0)

    @property
    def n_missing(self) -> int:
        """Documents without a score."""
        return self.n_errored + self.n_unscored

    def limits(self, confidence: float) -> Interval:
        """Both confidence limits, each one-sided at that confidence."""
        assert self.spread is not None
        low, high = self.spread.interval(confidence)
        least, most = self.range
        low, high = max(least, self._natural(low)), min(most, self._natural(high))
        return Interval(low, high, self.method)

    def p_less(self, threshold: float) -> float:
        """One-sided p-value: small values are evidence that the true number is less
        than the threshold."""
        assert self.spread is not None
        return self.spread.p_less(self._scaled(threshold))

    def p_greater(self, threshold: float) -> float:
        """One-sided p-value: small values are evidence that it is greater."""
        assert self.spread is not None
        return self.spread.p_greater(self._scaled(threshold))

    def _natural(self, number: float) -> float:
        if self.scale == "plain":
            return number
        if number > _LARGEST_LOG:
            return math.inf
        return math.exp(number) if self.scale == "log" else math.expm1(number)

    def _scaled(self, number: float) -> float:
        if self.scale == "plain":
            return number
        inner = number if self.scale == "log" else 1 + number
        return math.log(inner) if inner > 0 else -math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeEstimate(GateEstimate):
    """The change of a metric over the same documents: ``now - before``, or ``now /
    before - 1`` if ``scale`` is ``log1p``.

    Args:
        before: Value in the baseline; exact if documents are counted.
        now: Value in this run.
        shares: Documents with value 1 in one run only, if each value is 0 or 1.
        unit: Unit of differences.
    """

    before: Value
    now: Value
    shares: PairedProportions | None = None
    unit: Unit = "plain"


Bracket = tuple[GateEstimate, ...]
"""The estimates with the documents without a score at their extremes, from the lowest
to the highest."""


def without_variance(value: float) -> GateEstimate:
    """An estimate of a number without variance between documents."""
    return GateEstimate(value=value, spread=ExactValue(value), method=NO_VARIANCE)


def few_clusters(n_clusters: int) -> tuple[str, ...]:
    """A note if there are too few clusters for a normal approximation."""
    if n_clusters >= FEW_CLUSTERS:
        return ()
    return (f"only {n_clusters} clusters: the confidence limits are approximate",)


def antilog(value: float) -> float:
    """The exponential of a number, infinite if a double cannot represent it."""
    return math.exp(value) if value <= _LARGEST_LOG else math.inf
