"""Prediction-powered inference (Angelopoulos et al. 2023, Science 382:669): the mean of
human ratings, from a few of them and the ratings of a judge for all documents.

The estimate is ``mean(Y) + w (mean of all f - mean of the labelled f)``, for human
ratings Y and ratings f of the judge. It is unbiased for a fixed weight
even if the judge is not, because the labels measure its errors. The weight
``w = cov(Y, f) / var(f)``, clipped to 0 and 1, is that of PPI++ (Angelopoulos, Duchi
and Zrnic 2023, arXiv 2311.01453) with ``w = (1 + n/N) lambda``. For a useless judge it
is 0, and only the labels count.

The normal limits of these papers are far too narrow for few labels with a rate near 1:
if no label differs from its rating, their width is zero. Here ``mean(Y - w f)`` has
Gaffke's limits (:mod:`.mean_limits`) over its range from -w to 1, which always leave
room for errors that the labels do not show. The mean of f is known exactly for the
documents of a run. For other documents of the same population it has Gaffke's limits
too, over the documents without a label; both are combined as independent confidence
distributions (melding: Fay, Proschan and Brittain 2015, Biometrics 71:146).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import NormalDist

from pytest_evals.stats.averages import Labels, mean
from pytest_evals.stats.interval_methods import (
    ConfidenceInterval,
    ExactValue,
    IntervalEstimate,
    Proportion,
    limit_where,
)
from pytest_evals.stats.mean_limits import bounded_mean

METHOD = "prediction-powered"
_NODES = 16  # quadrature nodes of the distribution of the judge's mean
_TOLERANCE = 1e-7
Quantiles = Sequence[tuple[float, float]]
"""Quantiles of a confidence distribution of the judge's mean, and their weights."""


@dataclass(frozen=True)
class RectifiedMean:
    """The mean of human ratings, as an
    :class:`~.interval_methods.IntervalEstimate`."""

    rectifier: IntervalEstimate  # mean of ``Y - weight f`` over the labelled documents
    judged: IntervalEstimate  # mean of f: exact for the documents of a run
    weight: float  # weight of the judge, from 0 to 1
    low: float = 0.0
    high: float = 1.0

    @property
    def value(self) -> float:
        """Return the estimate."""
        total = self.rectifier.value + self.weight * self.judged.value
        return min(self.high, max(self.low, total))

    @property
    def stderr(self) -> float:
        """Return the standard error."""
        return math.hypot(self.rectifier.stderr, self.weight * self.judged.stderr)

    def p_less(self, bound: float) -> float:
        """Return the one-sided p-value of "the true mean is less than the bound"."""
        if not self.low < bound <= self.high:
            return 1.0 if bound <= self.low else 0.0
        return self._melded(self.rectifier.p_less, self._highest, bound)

    def p_greater(self, bound: float) -> float:
        """Return the one-sided p-value of "the true mean is greater than the bound"."""
        if not self.low <= bound < self.high:
            return 0.0 if bound < self.low else 1.0
        return self._melded(self.rectifier.p_greater, self._lowest, bound)

    def _melded(
        self, p_value: Callable[[float], float], judged: Quantiles, bound: float
    ) -> float:
        p = sum(share * p_value(bound - self.weight * at) for at, share in judged)
        return min(1.0, p)

    @cached_property
    def _lowest(self) -> Quantiles:
        return self._quantiles(self.judged.p_greater, 1.0, 0.0)

    @cached_property
    def _highest(self) -> Quantiles:
        return self._quantiles(self.judged.p_less, 0.0, 1.0)

    def _quantiles(
        self, p_value: Callable[[float], float], inner: float, end: float
    ) -> Quantiles:
        if isinstance(self.judged, ExactValue) or not self.weight:
            return ((self.judged.value, 1.0),)
        from numpy.polynomial.hermite_e import hermegauss

        nodes, weights = hermegauss(_NODES)  # symmetric
        shares = (weights / weights.sum()).tolist()
        levels = map(NormalDist().cdf, nodes.tolist())
        found = [limit_where(p_value, p, inner, end, _TOLERANCE) for p in levels]
        return [*zip(found, shares, strict=True)]

    def interval(self, confidence: float) -> ConfidenceInterval:
        """Return the lower and upper confidence limit, each one-sided."""
        alpha, value = 1 - confidence, self.value
        return ConfidenceInterval(
            limit_where(self.p_greater, alpha, value, self.low, _TOLERANCE),
            limit_where(self.p_less, alpha, value, self.high, _TOLERANCE),
        )

    def scaled(self, factor: float) -> RectifiedMean:
        """Return the estimate with the number of labels multiplied by this factor."""
        return replace(self, rectifier=self.rectifier.scaled(factor))


def tuned_weight(
    human: Sequence[float], judge: Sequence[float], others: Sequence[float]
) -> float:
    """Return the weight of the judge with the smallest variance, from 0 to 1."""
    ratings = [*judge, *others]
    middle, human_mean, judge_mean = mean(ratings), mean(human), mean(judge)
    variance = math.fsum((one - middle) ** 2 for one in ratings)
    variance /= max(1, len(ratings) - 1)
    if variance <= 0 or len(human) < 2:
        return 0.0
    covariance = math.fsum(
        (y - human_mean) * (f - judge_mean) for y, f in zip(human, judge, strict=True)
    ) / (len(human) - 1)
    return min(1.0, max(0.0, covariance / variance))


def mean_of_run(
    human: Sequence[float], judge: Sequence[float], others: Sequence[float]
) -> RectifiedMean:
    """Return the mean of human ratings over the documents of a run.

    The documents without a label are between 0 and 1, so limits are never outside of
    what the labels leave possible: with a label for each document, they are the mean.

    Args:
        human: (n,) ratings of the labelled documents, from 0 to 1.
        judge: (n,) the judge's ratings of the same documents, from 0 to 1.
        others: (N,) the judge's ratings of the documents without a label.
    """
    weight = tuned_weight(human, judge, others)
    total, n = math.fsum(human), len(human) + len(others)
    return RectifiedMean(
        rectifier=_rectifier(human, judge, weight, None),
        judged=ExactValue(mean([*judge, *others])),
        weight=weight,
        low=total / n,
        high=(total + len(others)) / n,
    )


def mean_of_population(
    human: Sequence[float],
    judge: Sequence[float],
    others: Sequence[float],
    *,
    clusters: tuple[Sequence[Hashable], Sequence[Hashable]] | None = None,
) -> RectifiedMean:
    """Return the mean of human ratings over the population of a run's documents, whose
    ratings are those of :func:`mean_of_run`. ``clusters``: cluster labels of the
    documents with and without a human label; no cluster has both."""
    weight = tuned_weight(human, judge, others)
    # Both parts must be independent, so the judge's mean is that of the others only.
    weight *= len(others) / (len(human) + len(others))
    labelled, rest = clusters or (None, None)
    return RectifiedMean(
        rectifier=_rectifier(human, judge, weight, labelled),
        judged=_mean(others, rest) if others else ExactValue(0.0),
        weight=weight,
    )


def _rectifier(
    human: Sequence[float], judge: Sequence[float], weight: float, clusters: Labels
) -> IntervalEstimate:
    if not weight:
        return _mean(human, clusters)
    errors = [y - weight * f for y, f in zip(human, judge, strict=True)]
    return bounded_mean(errors, low=-weight, high=1.0, clusters=clusters)


def _mean(values: Sequence[float], clusters: Labels) -> IntervalEstimate:
    """Return a mean of values from 0 to 1; exact limits for independent 0 and 1."""
    if clusters is None and {*values} <= {0, 1}:
        return Proportion(sum(map(int, values)), len(values))
    return bounded_mean(values, clusters=clusters)
