"""Difference of two proportions of correct answers on the same documents.

Tango's score interval (1998, Statistics in Medicine 17, 891-908) is accurate for few
documents and few discordant answers, including none. Near a small non-inferiority
margin its normal approximation fails too often (up to 8.8% instead of 5%), because the
few discordant answers are skewed. The score is therefore also corrected for skewness,
as Gart and Nam (1990, Biometrics 46, 637-643) do for independent proportions, and the
wider of both limits is used.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple

from pytest_evals.stats.interval_methods import ConfidenceInterval, last_that

_NEGLIGIBLE = 1e-12  # skewness below which the correction is skipped


class PairedProportions(NamedTuple):
    """Discordant answers of two systems on the same documents."""

    gained: float
    """Documents that only the second system answers correctly; fractional when
    planning."""
    lost: float  # documents that only the first system answers correctly
    n: int  # number of documents, at least 1
    times: float = 1.0  # factor on the sample size, when planning

    @property
    def value(self) -> float:
        """Return the second proportion minus the first."""
        return (self.gained - self.lost) / self.n

    @property
    def stderr(self) -> float:
        """Return the Wald standard error; 0 if no answers differ."""
        changed = (self.gained + self.lost) / self.n
        return math.sqrt(max(0.0, changed - self.value**2) / self.n / self.times)

    def scores(self, difference: float) -> tuple[float, float]:
        """Return Tango's score without and with the correction for skewness: the
        observed minus the given difference, in standard errors under the given
        difference. The square of the first at 0 is McNemar's statistic."""
        n, gained, lost = self.n, self.gained, self.lost
        above = gained - lost - n * difference
        a = 2 * n
        b = -gained - lost + (2 * n - gained + lost) * difference
        c = -lost * difference * (1 - difference)
        root = math.sqrt(max(0.0, b * b - 4 * a * c))
        # Rounding must not make the proportions of gained or lost documents negative.
        lost_share = max(0.0, -difference, (root - b) / (2 * a))
        variance = 2 * lost_share + difference * (1 - difference)
        if variance <= 0:
            certain = math.copysign(math.inf, above) if above else 0.0
            return certain, certain
        score = above / math.sqrt(n * variance) * math.sqrt(self.times)
        changed = 2 * lost_share + difference
        # third central moment over variance, which is never above 2
        ratio = difference * (1 - 3 * changed + 2 * difference**2) / variance
        skewness = ratio / math.sqrt(n * variance * self.times)
        return score, _unskewed(score, skewness)

    def interval(self, confidence: float) -> ConfidenceInterval:
        """Return the lower and upper limit of the difference, each one-sided."""
        z = NormalDist().inv_cdf(confidence)
        low = last_that(lambda at: min(self.scores(at)) > z, -1.0, 1.0)
        high = last_that(lambda at: max(self.scores(at)) < -z, 1.0, -1.0)
        return ConfidenceInterval(low, high)

    def p_less(self, bound: float) -> float:
        """Return the p-value of "the true difference is less than the bound"."""
        if not -1 < bound < 1:
            return 1.0 if bound <= -1 else 0.0
        return NormalDist().cdf(max(self.scores(bound)))

    def p_greater(self, bound: float) -> float:
        """Return the p-value of "the true difference is greater than the bound"."""
        if not -1 < bound < 1:
            return 0.0 if bound <= -1 else 1.0
        return NormalDist().cdf(-min(self.scores(bound)))

    def scaled(self, factor: float) -> PairedProportions:
        """Return the same changes with the sample size multiplied by this factor."""
        return self._replace(times=self.times * factor)


def _unskewed(score: float, skewness: float) -> float:
    """Return the normal quantile of a skewed score: solves the first term of its
    Cornish-Fisher expansion, score = z + skewness / 6 * (z * z - 1)."""
    a = skewness / 6
    if abs(a) < _NEGLIGIBLE:
        return score
    square = 1 + 4 * a * (score + a)
    if square > 0:
        return 2 * (score + a) / (1 + math.sqrt(square))
    # Beyond the turning point of the expansion, no score is less extreme than there.
    turn = -1 / (2 * a)
    return min(score, turn) if a > 0 else max(score, turn)
