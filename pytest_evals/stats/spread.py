"""Where a number lies, as far as its noise goes: intervals and tails by one name.

Numbers in, numbers out. Each :class:`Spread` answers the same two questions, whatever
stands behind it: a share of right answers, a mean, a difference, many replicates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from pytest_evals.stats.intervals import Interval, cumulative, student, wilson

__all__ = ["Located", "Share", "Spread", "Still"]


class Spread(Protocol):
    """A number with its noise."""

    @property
    def value(self) -> float:
        """The number."""
        ...

    @property
    def stderr(self) -> float:
        """Its standard error, as good as there is one."""
        ...

    def interval(self, confidence: float) -> Interval:
        """Two one-sided bounds, each at that confidence."""
        ...

    def tail(self, bar: float) -> float:
        """Probability of a number as small as this or smaller, if the true one is
        ``bar``. Below 1 - confidence exactly where the upper bound lies below."""
        ...


@dataclass(frozen=True, slots=True)
class Share:
    """A share of right answers, by Wilson's score.

    Args:
        value: The share.
        n: Documents; fewer than there are where they hang together.
        n_clusters: How many clusters say how much they do, where these are few; 0 if
            that is no question.
    """

    value: float
    n: float
    n_clusters: int = 0

    @property
    def stderr(self) -> float:
        """Of the share, as Wald has it; 0 at 0 and 1."""
        return math.sqrt(self.value * (1 - self.value) / self.n)

    def interval(self, confidence: float) -> Interval:
        """Wilson's; wider by Student's t where clusters are few."""
        return wilson(self.value, self.n, confidence, self._df)

    def tail(self, bar: float) -> float:
        """By the normal distribution whose variance is that of the bar."""
        if not 0 < bar < 1:
            return 1.0 if self.value >= bar else 0.0
        z = (self.value - bar) / math.sqrt(bar * (1 - bar) / self.n)
        return cumulative(z, self._df)

    @property
    def _df(self) -> float:
        return self.n_clusters - 1 if self.n_clusters else math.inf


@dataclass(frozen=True, slots=True)
class Located:
    """A number whose errors have a known or an estimated standard error.

    Args:
        value: The number.
        stderr: Its standard error.
        df: Degrees of freedom of the standard error; infinite if it is known.
    """

    value: float
    stderr: float
    df: float = math.inf

    def interval(self, confidence: float) -> Interval:
        """Student's t; the normal one where the standard error is known."""
        return student(self.value, self.stderr, self.df, confidence)

    def tail(self, bar: float) -> float:
        """By the same distribution."""
        if self.stderr == 0:
            return 1.0 if self.value >= bar else 0.0
        return cumulative((self.value - bar) / self.stderr, self.df)


@dataclass(frozen=True, slots=True)
class Still:
    """A number that no document has moved: the same answers again."""

    value: float = 0.0

    @property
    def stderr(self) -> float:
        """None."""
        return 0.0

    def interval(self, confidence: float) -> Interval:
        """The number itself."""
        return Interval(self.value, self.value)

    def tail(self, bar: float) -> float:
        """Certainty."""
        return 1.0 if self.value >= bar else 0.0
