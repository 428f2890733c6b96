"""Probability that a gate that compares the number is decided differently next time: on
other documents of the same population, or in another run on the same documents.

Standard library only, because every gate without an inference target uses it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple

from pytest_evals.core.gate import Interval, Outcome
from pytest_evals.gates.decide import Condition, counts_that_hold

CONFIDENCE = 0.95
"""One-sided; together a 90% confidence interval."""
_Z = NormalDist().inv_cdf(CONFIDENCE)
_NEGLIGIBLE = 1e-12


class Reversal(NamedTuple):
    """A threshold within the confidence interval.

    Args:
        interval: Both one-sided 95% limits of the number.
        probability: Probability of another decision on the same number of other
            documents.
        rerun: Probability of another decision in another run on the same documents;
            ``None`` if the flip rate is unknown.
    """

    interval: Interval
    probability: float
    rerun: float | None = None


def reversal_of_proportion(
    conditions: Sequence[Condition],
    count: int,
    n: int,
    outcome: Outcome,
    flip_rate: float | None = None,
) -> Reversal | None:
    """For a proportion, by the posterior predictive distribution with a uniform prior
    (beta-binomial); ``None`` if no threshold is within the confidence interval.

    Args:
        count: Number of documents with value 1.
        flip_rate: Fraction of documents that flip between two runs of one model.
    """
    if not any(_is_within(one, count, n) for one in conditions):
        return None
    from scipy.special import betaincinv

    low = float(betaincinv(count, n - count + 1, 1 - CONFIDENCE)) if count else 0.0
    high = float(betaincinv(count + 1, n - count, CONFIDENCE)) if count < n else 1.0
    holds = counts_that_hold(conditions, n)
    passes = sum(_beta_binomial(k, n, count + 1, n - count + 1) for k in holds)
    rerun = None
    if flip_rate is not None:
        rerun = _rerun(conditions, count / n, math.sqrt(flip_rate / (2 * n)), outcome)
    interval = Interval(low, high, "Clopper-Pearson")
    return Reversal(interval, _opposite(passes, outcome), rerun)


def reversal_of_value(
    conditions: Sequence[Condition],
    value: float,
    stderr: float,
    outcome: Outcome,
    limits: tuple[float, float],
    rerun_stderr: float | None = None,
) -> Reversal | None:
    """For any other number, by the normal approximation; the standard error of the
    difference of two runs is sqrt(2) standard errors.

    Args:
        stderr: Its standard error over other documents.
        limits: Possible values of the number.
        rerun_stderr: Its standard error over reruns, ``None`` if unknown.
    """
    edges = [float(one.threshold) for one in conditions]
    if stderr <= 0 or not any(abs(value - edge) < _Z * stderr for edge in edges):
        return None
    low, high = max(limits[0], value - _Z * stderr), min(limits[1], value + _Z * stderr)
    rerun = None
    if rerun_stderr is not None:
        rerun = _rerun(conditions, value, rerun_stderr, outcome)
    passes = _normal_passes(conditions, value, math.sqrt(2) * stderr)
    interval = Interval(low, high, "normal")
    return Reversal(interval, _opposite(passes, outcome), rerun)


def _opposite(passes: float, outcome: Outcome) -> float:
    return max(0.0, passes if outcome is Outcome.FAILED else 1 - passes)


def _rerun(
    conditions: Sequence[Condition], value: float, stderr: float, outcome: Outcome
) -> float:
    """Both this run and the next one vary around the model's mean."""
    spread = math.sqrt(2) * stderr
    if not spread:
        return 0.0
    return _opposite(_normal_passes(conditions, value, spread), outcome)


def _normal_passes(
    conditions: Sequence[Condition], value: float, stderr: float
) -> float:
    """Probability that all conditions hold; at most one fails for any number."""
    fails = 0.0
    for one in conditions:
        below = NormalDist(value, stderr).cdf(float(one.threshold))
        fails += below if one.is_lower else 1 - below
    return max(0.0, 1 - fails)


def _is_within(condition: Condition, count: int, n: int) -> bool:
    """Whether the threshold is within the exact 90% confidence interval."""
    edge = float(condition.threshold)
    if not 0 < edge < 1:
        return False
    alpha = 1 - CONFIDENCE
    return _at_most(count, n, edge) > alpha and _at_most(n - count, n, 1 - edge) > alpha


def _beta_binomial(k: int, n: int, a: int, b: int) -> float:
    log = math.lgamma
    return math.exp(
        log(n + 1)
        - log(k + 1)
        - log(n - k + 1)
        + log(k + a)
        + log(n - k + b)
        - log(n + a + b)
        + log(a + b)
        - log(a)
        - log(b)
    )


def _at_most(most: int, n: int, p: float) -> float:
    """P(Bin(n, p) <= most), summed from the largest term on, for 0 < p < 1."""
    if most < 0:
        return 0.0
    if most >= n:
        return 1.0
    if most > n * p:
        return 1 - _at_most(n - most - 1, n, 1 - p)
    sum_, k = 0.0, most
    term = math.exp(
        math.lgamma(n + 1)
        - math.lgamma(k + 1)
        - math.lgamma(n - k + 1)
        + k * math.log(p)
        + (n - k) * math.log1p(-p)
    )
    while k >= 0 and term > _NEGLIGIBLE * sum_:
        sum_ += term
        term *= k * (1 - p) / ((n - k + 1) * p)
        k -= 1
    return min(1.0, sum_)
