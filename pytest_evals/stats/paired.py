"""The difference of two shares of right answers over the same documents.

Tango's score interval (1998, Statistics in Medicine 17, 891-908): unlike the difference
with its standard errors on both sides it keeps its promise for few documents and few
answers that differ, none at all included.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple

from pytest_evals.stats.intervals import Interval

__all__ = ["PairedShares"]

_HALVINGS = 60
"""Steps that bring an interval of length 2 below the precision of a double."""


class PairedShares(NamedTuple):
    """What two systems have answered right of the same documents.

    Args:
        gained: Documents that the second one alone has right; fractions in plans.
        lost: Documents that the first one alone has right.
        n: All documents, at least 1.
        times: So many times as many documents, in plans.
    """

    gained: float
    lost: float
    n: int
    times: float = 1.0

    @property
    def value(self) -> float:
        """The second share less the first."""
        return (self.gained - self.lost) / self.n

    @property
    def stderr(self) -> float:
        """Its standard error, as Wald has it; 0 when no answers differ."""
        changed = (self.gained + self.lost) / self.n
        return math.sqrt(max(0.0, changed - self.value**2) / self.n / self.times)

    def score(self, difference: float) -> float:
        """How many standard errors, as they are if that is the true difference, the one
        that was seen lies above it. At 0 its square is McNemar's statistic."""
        n, gained, lost = self.n, self.gained, self.lost
        above = gained - lost - n * difference
        a = 2 * n
        b = -gained - lost + (2 * n - gained + lost) * difference
        c = -lost * difference * (1 - difference)
        root = math.sqrt(max(0.0, b * b - 4 * a * c))
        # Rounding must not bring the shares of gained or lost documents below 0.
        lost_share = max(0.0, -difference, (root - b) / (2 * a))
        variance = n * (2 * lost_share + difference * (1 - difference))
        if variance <= 0:
            return math.copysign(math.inf, above) if above else 0.0
        return above / math.sqrt(variance) * math.sqrt(self.times)

    def interval(self, confidence: float) -> Interval:
        """Tango's interval of the difference; each bound is one-sided."""
        z = NormalDist().inv_cdf(confidence)
        return Interval(self._where(z), self._where(-z))

    def _where(self, z: float) -> float:
        """The difference at which the score, which falls, comes to ``z``."""
        low, high = -1.0, 1.0
        if z > 0 and self.score(low) <= z:
            return low
        if z < 0 and self.score(high) >= z:
            return high
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            if self.score(middle) > z:
                low = middle
            else:
                high = middle
        return (low + high) / 2

    def p_less(self, bound: float) -> float:
        """One-sided p-value of "the true difference is less than the bound"."""
        if not -1 < bound < 1:
            return 1.0 if bound <= -1 else 0.0
        return NormalDist().cdf(self.score(bound))

    def p_greater(self, bound: float) -> float:
        """One-sided p-value of "the true difference is greater than the bound"."""
        return 1 - self.p_less(bound)

    def scaled(self, factor: float) -> PairedShares:
        """The same changes in so many times as many documents."""
        return self._replace(times=self.times * factor)
