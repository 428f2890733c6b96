"""Probability that a gate that compares the number is decided differently next time: on
other documents of the same population, or in another run on the same documents."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from statistics import NormalDist
from typing import NamedTuple

from pytest_evals.core.gate import Interval, Outcome
from pytest_evals.gates.terms import Condition, Decision, GateEstimate
from pytest_evals.stats.power import chance_below

CONFIDENCE = 0.95
"""One-sided; together a 90% confidence interval."""
_Z = NormalDist().inv_cdf(CONFIDENCE)


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


def reversal_of(
    decision: Decision,
    estimate: GateEstimate,
    stderr: float,
    rerun_stderr: float | None = None,
) -> Reversal | None:
    """The probability of another decision; ``None`` if no threshold is within the
    confidence interval.

    For a proportion, by the posterior predictive distribution with a uniform prior
    (beta-binomial); else by the normal approximation, in which the difference of two
    runs has sqrt(2) standard errors.

    Args:
        stderr: Standard error of the number over other documents.
        rerun_stderr: Over reruns; ``None`` if unknown.
    """
    conditions, outcome = decision.conditions, decision.outcome
    value, n, count = float(estimate.value), estimate.n, estimate.count
    if estimate.is_share and count is not None:
        # An interval that contains the exact one, which needs scipy.
        reach = 2 * math.sqrt(value * (1 - value) / n) + 4 / n
    else:
        count, reach = None, _Z * stderr
    edges = [float(one.threshold) for one in conditions]
    if not any(abs(value - edge) < reach for edge in edges):
        return None
    if count is None:
        low, high = estimate.range
        interval = Interval(max(low, value - reach), min(high, value + reach), "normal")
        passes = _normal_passes(conditions, value, math.sqrt(2) * stderr)
    else:
        from pytest_evals.stats.interval_methods import Proportion

        exact = Proportion(count, n).interval(CONFIDENCE)
        interval = Interval(exact.low, exact.high, "Clopper-Pearson")
        if not any(interval.low < edge < interval.high for edge in edges):
            return None
        holds = counts_that_hold(conditions, n)
        passes = sum(_beta_binomial(k, n, count + 1, n - count + 1) for k in holds)
    rerun = None
    if rerun_stderr is not None:
        rerun_passes = _normal_passes(conditions, value, math.sqrt(2) * rerun_stderr)
        rerun = _opposite(rerun_passes, outcome) if rerun_stderr else 0.0
    return Reversal(interval, _opposite(passes, outcome), rerun)


def counts_that_hold(conditions: Sequence[Condition], n: int) -> range:
    """The numbers of ``n`` documents with value 1 whose share meets all conditions."""
    least, most = 0, n
    for one in conditions:
        edge = Fraction(one.threshold) * n
        if one.op == ">=":
            least = max(least, math.ceil(edge))
        elif one.op == ">":
            least = max(least, math.floor(edge) + 1)
        elif one.op == "<=":
            most = min(most, math.floor(edge))
        else:
            most = min(most, math.ceil(edge) - 1)
    return range(least, most + 1)


def _opposite(passes: float, outcome: Outcome) -> float:
    return max(0.0, passes if outcome is Outcome.FAILED else 1 - passes)


def _normal_passes(
    conditions: Sequence[Condition], value: float, stderr: float
) -> float:
    """Probability that all conditions hold; at most one fails for any number."""
    fails = 0.0
    for one in conditions:
        below = chance_below(float(one.threshold), value, stderr)
        fails += below if one.is_lower else 1 - below
    return max(0.0, 1 - fails)


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
