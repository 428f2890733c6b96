"""Anytime-valid tests of the sum of a finite list, before all of it is read.

The numbers are fixed and are read in random order. Under the null hypothesis, betting
on the next number wins nothing on average, under any stopping rule (Ville's
inequality): the probability of reaching a wealth of 1/error is at most ``error``. The
bets are those of Waudby-Smith and Ramdas (2020, arXiv 2006.04347; 2024, 2010.09686): a
mixture of fixed fractions and one adaptive bet. The guarantee does not hold for a
reading order that is not random.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pytest_evals.stats.interval_methods import ConfidenceInterval, last_that

Numbers = NDArray[np.float64]

_FRACTIONS = np.geomspace(0.01, 0.9, 10)
"""Fractions of the possible loss that the fixed bets stake."""
_MOST = 0.8  # largest fraction of the adaptive bet
_PSEUDO, _VARIANCE, _LEAST_VARIANCE = 4.0, 0.05, 1e-4
"""Weight of the prior guess in observations, and the prior variance."""
_ROUNDING = 1e-9  # relative tolerance of sums, per number


class Evidence:
    """A betting test that ``n`` numbers from 0 to 1 sum up to at least ``target``.

    Under the null hypothesis (a sum below the target), the remaining numbers have a
    mean of at most ``(target - sum so far) / left``, so a bet on more cannot win on
    average.
    """

    def __init__(
        self, n: int, target: float, guess: float, *, strict: bool = False
    ) -> None:
        """Set up the test; no numbers have been read. ``guess``: of the mean; a wrong
        one costs only speed. ``strict``: whether the sum must be above the target."""
        self._n, self._target, self._guess = n, target, guess
        self._strict = strict
        self._read, self._sum, self._squares = 0, 0.0, 0.0
        self._logs = np.zeros(len(_FRACTIONS) + 1)

    def read(self, values: Numbers) -> None:
        """Bet on each of the next numbers, in order. Raises ``ValueError`` if a number
        is not from 0 to 1, or there are too many."""
        if len(values) > self._n - self._read:
            raise ValueError(f"more than {self._n} numbers")
        if not np.all((values >= 0) & (values <= 1)):
            raise ValueError("numbers must be from 0 to 1")
        before = self._sum + np.cumsum(values) - values
        n_before = self._read + np.arange(len(values))
        mean = (self._target - before) / (self._n - n_before)
        # Outside (0, 1) the null hypothesis is impossible or cannot be rejected.
        open_ = (mean > 0) & (mean < 1)
        self._bet(values, np.where(open_, mean, 0.5), before, n_before, open_)
        self._read += len(values)
        self._sum += float(values.sum())

    def _bet(
        self,
        values: Numbers,
        mean: Numbers,
        before: Numbers,
        n_before: NDArray[np.int64],
        open_: NDArray[np.bool_],
    ) -> None:
        gains = np.log1p(_FRACTIONS[:, None] * (values / mean - 1))  # (10, k)
        self._logs[:-1] += np.where(open_, gains, 0.0).sum(axis=1)
        weight = _PSEUDO + n_before
        expected = (_PSEUDO * self._guess + before) / weight
        after = (_PSEUDO * self._guess + before + values) / (weight + 1)
        squares = np.square(values - after)
        seen = self._squares + np.cumsum(squares) - squares
        variance = np.maximum((_PSEUDO * _VARIANCE + seen) / weight, _LEAST_VARIANCE)
        away = expected - mean
        stake = np.clip(away / (variance + away * away), 0, _MOST / mean)
        gain = np.log1p(stake * (values - mean))
        self._logs[-1] += float(np.where(open_, gain, 0.0).sum())
        self._squares += float(squares.sum())

    @property
    def log_wealth(self) -> float:
        """Return the natural logarithm of the wealth of a stake of 1, for each bet."""
        return _log_mean(self._logs)

    @property
    def is_certain(self) -> bool:
        """Return whether the remaining numbers cannot change the answer."""
        margin = _ROUNDING if self._strict else -_ROUNDING
        return self._sum > self._target + margin


class Urn:
    """Sequential decision whether ``n`` numbers from 0 to 1 sum up to a target. Exactly
    one of the two answers is wrong, so each test gets the full error rate."""

    def __init__(
        self,
        n: int,
        target: float,
        *,
        error: float,
        guess: float | None = None,
        old: Numbers | None = None,
        strict: bool = False,
    ) -> None:
        """Set up the decision; no numbers have been read.

        Args:
            error: Probability that the answer differs from that of all numbers; 0
                decides only what is certain.
            guess: Prior guess of the mean.
            old: (n,) the same numbers in another run, from 0 to 1, in reading order.
                Bets on the change are added; the guarantee holds for any values.
            strict: Whether the sum must be above the target.
        """
        self._least = -math.log(error) if error > 0 else math.inf
        middle = min(max(target / n, 0.0), 1.0) if guess is None else guess
        up = Evidence(n, target, middle, strict=strict)
        down = Evidence(n, n - target, 1 - middle, strict=not strict)
        self._up, self._down = [up], [down]
        self._old, self._read = old, 0
        if old is not None:
            # new - old is in [-1, 1]; its sum is tested against target - sum(old).
            change = (target - float(old.sum()) + n) / 2
            self._up.append(Evidence(n, change, 0.5, strict=strict))
            self._down.append(Evidence(n, n - change, 0.5, strict=not strict))

    def read(self, low: Numbers, high: Numbers | None = None) -> bool | None:
        """Read the next numbers and return the decision.

        Args:
            low: (k,) the next numbers, or lower bounds of them.
            high: (k,) upper bounds of the same numbers.

        Returns:
            Whether the sum is at least the target; ``None`` while undecided.
        """
        high = low if high is None else high
        self._up[0].read(low)
        self._down[0].read(1 - high)
        if self._old is not None:
            old = self._old[self._read : self._read + len(low)]
            self._up[1].read((low - old + 1) / 2)
            self._down[1].read((old - high + 1) / 2)
        self._read += len(low)
        return self.answer

    @property
    def answer(self) -> bool | None:
        """Return the decision so far; ``None`` while undecided."""
        for sides, answer in ((self._up, True), (self._down, False)):
            logs = np.array([side.log_wealth for side in sides])
            if sides[0].is_certain or _log_mean(logs) >= self._least:
                return answer
        return None


def sum_bounds(
    low: Numbers, high: Numbers, n: int, error: float, old: Numbers | None = None
) -> ConfidenceInterval:
    """Return anytime-valid confidence limits of the sum of all ``n`` numbers.
    ``error``: error rate of each limit, under any stopping rule."""
    first, last = float(low.sum()), float(high.sum()) + n - len(high)

    def answer(target: float) -> bool | None:
        return Urn(n, target, error=error, old=old).read(low, high)

    return ConfidenceInterval(
        last_that(lambda target: answer(target) is True, first, last),
        last_that(lambda target: answer(target) is False, last, first),
    )


def _log_mean(logs: Numbers) -> float:
    """Return the logarithm of the mean of exponentials."""
    most = float(logs.max())
    return most + math.log(float(np.exp(logs - most).mean()))
