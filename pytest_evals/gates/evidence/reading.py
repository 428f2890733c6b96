"""A metric's number in the form in which it is compared, and the documents it lacks."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction

from pytest_evals.core.metric import MetricResult
from pytest_evals.gates.wording.figures import figure_beside

__all__ = ["Reading", "lacking", "read", "shortfall"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A metric's value in the form in which it is compared.

    Args:
        value: A fraction when right answers were counted, else a double.
        total: Documents with value 1, ``None`` when the value is no share of them.
        n_scored: Documents with a value.
        n_errored: Documents that failed.
        n_unscored: Documents whose score has no value.
        given_ends: As ``ends``, where no count of documents says them.
    """

    value: Fraction | float
    total: int | None
    n_scored: int
    n_errored: int
    n_unscored: int
    given_ends: tuple[Fraction, ...] = ()

    @property
    def n_lacking(self) -> int:
        """Documents without a score."""
        return self.n_errored + self.n_unscored

    @property
    def n(self) -> int:
        """Documents, with a score or without."""
        return self.n_scored + self.n_lacking

    @property
    def wholes(self) -> list[Fraction]:
        """The share of right answers with none of the lacking documents right, with
        one, with two and so on; nothing where they are neither right nor wrong."""
        if self.total is None:
            return []
        rights = range(self.total, self.total + self.n_lacking + 1)
        return [Fraction(right, self.n) for right in rights]

    @property
    def ends(self) -> tuple[Fraction, ...]:
        """The number with all lacking documents counted as 0, and as 1; empty where
        they are neither."""
        if self.total is None:
            return self.given_ends
        n_high = self.total + self.n_lacking
        return Fraction(self.total, self.n), Fraction(n_high, self.n)


def read(metric: MetricResult) -> Reading:
    """The number of a metric that has one."""
    assert metric.estimate is not None
    value: Fraction | float = metric.estimate.value
    total = metric.total
    if total is not None:
        share = Fraction(total, metric.n_scored)
        # A sum of ones says nothing of a value that is not their mean.
        if math.isclose(value, share, rel_tol=1e-9, abs_tol=1e-12):
            value = share
        else:
            total = None
    reading = Reading(
        value=value,
        total=total,
        n_scored=metric.n_scored,
        n_errored=metric.n_errored,
        n_unscored=metric.n_unscored,
    )
    how = metric.how
    if (
        total is None
        and how is not None
        and how.is_mean
        and how.known_limits is not None
    ):
        return replace(reading, given_ends=_ends(reading, how.known_limits))
    return reading


def _ends(reading: Reading, limits: tuple[float, float]) -> tuple[Fraction, ...]:
    """A mean if each document without a score had the lowest value, and the highest."""
    if not all(map(math.isfinite, limits)):
        return ()
    known = Fraction(reading.value) * reading.n_scored
    return tuple(
        (known + reading.n_lacking * Fraction(end)) / reading.n for end in limits
    )


def lacking(reading: Reading, bar: Decimal) -> str:
    """Why documents without a score make a verdict impossible."""
    counts = shortfall(reading.n_errored, reading.n_unscored)
    have = "has" if reading.n_lacking == 1 else "have"
    text = f"{reading.n_lacking} of {reading.n} documents {have} no score{counts}"
    if not reading.ends:
        return text
    low, high = (figure_beside(float(end), bar) for end in reading.ends)
    return f"{text}; the value is between {low} and {high}, so they decide it"


def shortfall(n_errored: int, n_unscored: int) -> str:
    """How many documents lack a score, by why, in brackets."""
    counts = [(n_errored, "errored"), (n_unscored, "unscored")]
    parts = [f"{n} {word}" for n, word in counts if n]
    return f" ({', '.join(parts)})" if parts else ""
