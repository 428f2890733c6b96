"""Other samples, judged by the numbers of a run: how often a gate that compares the
number would be decided differently, how many documents would decide one with limits,
and whether one on a change could show that an unchanged model is not worse.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from statistics import NormalDist
from typing import NamedTuple

from pytest_evals.core.gate import Gate, Interval, Outcome
from pytest_evals.gates.estimate.sums import UNKNOWN_RANGE
from pytest_evals.gates.power import (
    POWER,
    USUAL_FLIPS,
    documents_for,
    documents_needed,
    flips_text,
    normal_chances,
    rule_of,
    strata_of,
)
from pytest_evals.gates.terms import (
    ChangeEstimate,
    Condition,
    Decision,
    GateEstimate,
    p_fails,
    p_passes,
    percent,
)
from pytest_evals.stats.independent import IndependentDifference
from pytest_evals.stats.interval_methods import Proportion, first_that

CONFIDENCE = 0.95  # One-sided; together a 90% confidence interval
LOW_POWER = "low power"
MOST_TIMES = 100
"""If more than this many times the scored documents are needed, no number is
suggested."""
_ANSWERS = 4  # answers to each document that are recommended
_NORMAL = NormalDist()


class Reversal(NamedTuple):
    """A threshold within the confidence interval."""

    interval: Interval  # both one-sided 95% limits of the number
    probability: float
    """Probability of another decision on the same number of other documents."""
    rerun: float | None = None
    """Probability of another decision in another run on the same documents; ``None`` if
    the flip rate is unknown."""


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
    conditions, value, n = decision.conditions, float(estimate.value), estimate.n
    sides = [(float(one.threshold), one.is_lower) for one in conditions]

    def opposite(passes: float) -> float:
        return max(0.0, passes if decision.outcome is Outcome.FAILED else 1 - passes)

    def of_normal(stderr: float) -> float:
        return opposite(normal_chances(sides, value, math.sqrt(2) * stderr)[1])

    if estimate.is_share and estimate.count is not None:
        # An interval that contains the exact one, for which scipy is imported.
        reach = 2 * math.sqrt(value * (1 - value) / n) + 4 / n
        if not any(abs(value - edge) < reach for edge, _ in sides):
            return None
        exact = Proportion(estimate.count, n).interval(CONFIDENCE)
        interval = Interval(exact.low, exact.high, "Clopper-Pearson")
        holding = counts_that_hold(conditions, n)
        chance = opposite(_predicted(holding, estimate.count, n))
    else:
        reach, (low, high) = _NORMAL.inv_cdf(CONFIDENCE) * stderr, estimate.range
        interval = Interval(max(low, value - reach), min(high, value + reach), "normal")
        chance = of_normal(stderr)
    if not any(interval.low < edge < interval.high for edge, _ in sides):
        return None
    rerun = rerun_stderr and of_normal(rerun_stderr)
    return Reversal(interval, chance, rerun)


def _predicted(holding: range, count: int, n: int) -> float:
    """Probability of a number in the range, of ``n`` further documents."""
    import numpy as np
    from scipy.special import betaln

    k, a, b = np.array(holding), count + 1, n - count + 1
    log_combinations = -betaln(k + 1, n - k + 1) - math.log(n + 1)
    return float(
        np.exp(log_combinations + betaln(k + a, n - k + b) - betaln(a, b)).sum()
    )


def counts_that_hold(conditions: Sequence[Condition], n: int) -> range:
    """The numbers of ``n`` documents with value 1 whose share meets all conditions."""
    least, most = 0, n
    for one in conditions:
        edge, is_strict = Fraction(one.threshold) * n, "=" not in one.op
        if one.is_lower:
            least = max(least, math.floor(edge) + 1 if is_strict else math.ceil(edge))
        else:
            most = min(most, math.ceil(edge) - 1 if is_strict else math.floor(edge))
    return range(least, most + 1)


def documents_to_decide(
    gate: Gate, conditions: Sequence[Condition], estimate: GateEstimate
) -> tuple[int | None, str]:
    """The smallest number of documents with which the gate would be decided, more than
    there are now, and its assumption; ``None`` if no number is enough.

    For proportions, as in the plan before the run: decided with the usual power.
    """
    spread, n = estimate.spread, estimate.n_labels or estimate.n
    assert spread is not None
    value = estimate.value
    away = min(condition.distance(value) for condition in conditions)
    holds = all(condition.holds(value) for condition in conditions)
    same = "if the value stays the same"
    is_planned = estimate.is_share and gate.published is None and not gate.cluster
    if is_planned and len(conditions) == 1 and away:
        rule = rule_of(gate, float(value), 0.0, strata_of(spread))
        more = documents_needed(rule, passes=holds) if rule else None
        return more, f"in {percent(POWER)} of runs {same}"

    def is_decided(more: int) -> bool:
        # P-values are much cheaper than limits, and agree with them.
        scaled = replace(estimate, spread=spread.scaled(more / n))
        p = (p_passes if holds else p_fails)(conditions, scaled)
        return p is not None and p <= 1 - gate.confidence

    most = estimate.n if estimate.n_labels else MOST_TIMES * n
    return first_that(is_decided, n + 1, most) if away and most > n else None, same


class _Power(NamedTuple):
    """The power of a gate on a change to show that an unchanged model is not worse."""

    passes: float  # probability that such a model passes
    n_needed: int | None  # documents for the usual power, None if none are enough
    stderr: float  # of its change
    assumption: str = ""


def weakness_notes(
    gate: Gate, estimate: ChangeEstimate, decision: Decision
) -> Iterator[str]:
    """Yield the power to prove that an unchanged model is not worse, if the gate is
    inconclusive and the power is low."""
    condition, n = decision.condition, estimate.n
    if decision.outcome is not Outcome.INCONCLUSIVE:
        return
    assert condition is not None
    assert gate.margin is not None
    edge, is_log = float(condition.threshold), estimate.scale == "log1p"
    margin = abs(math.log1p(edge)) if is_log and edge > -1 else abs(edge)
    width = -estimate.range[0] if condition.is_lower else estimate.range[1]
    if not 0 < margin < math.inf:
        return
    power = _planned_power(gate, estimate)
    if power is None and margin < width < math.inf:
        least = documents_for(1 - gate.confidence, margin / width)
        if least > n:
            is_unknown = any(one.startswith(UNKNOWN_RANGE) for one in estimate.notes)
            offer = "" if is_unknown else offer_of_assumption(gate, margin, width)
            why = "a model that changes no answer passes only from"
            yield f"{LOW_POWER}: {why} {least:,} documents on, not with {n:,}{offer}"
            return
    power = power or _observed_power(gate, estimate, margin)
    if power is None or power.passes >= POWER:
        return
    model = "an unchanged model" if gate.baseline else "a model like the reference"
    many = "no number" if power.n_needed is None else f"{power.n_needed:,}"
    yield (
        f"{LOW_POWER}: {model} passes in {percent(power.passes)} of runs with {n:,} "
        f"documents; {many} would make it {percent(POWER)}{power.assumption}"
        f"{_with_answers(gate, estimate, margin, power.stderr)}"
    )


def _planned_power(gate: Gate, estimate: ChangeEstimate) -> _Power | None:
    """By the same rule as in the plan before the run, for independent answers that are
    correct or wrong: with the usual flip rate, unless more answers flipped in this run.
    """
    spread, shares, n = estimate.spread, estimate.shares, estimate.n
    assert spread is not None
    flips, stderr, assumption = 0.0, spread.stderr, ""
    new = spread.new if isinstance(spread, IndependentDifference) else None
    if shares is not None and gate.baseline:
        flips = max(USUAL_FLIPS, (shares.gained + shares.lost) / n)
        source = ", as here" if flips > USUAL_FLIPS else " (assumed)"
        stderr, assumption = math.sqrt(flips / n), f", {flips_text(flips, source)}"
    elif not (gate.published and isinstance(new, Proportion)):
        return None
    rule = rule_of(gate, float(estimate.before), flips, strata_of(spread))
    if gate.cluster or rule is None:
        return None
    return _Power(rule(n, 0.0)[1], documents_needed(rule), stderr, assumption)


def _observed_power(
    gate: Gate, estimate: ChangeEstimate, margin: float
) -> _Power | None:
    """By the variation between the documents of this run."""
    assert estimate.spread is not None
    if (stderr := estimate.spread.stderr) <= 0:
        return None
    # Standard errors between a margin and no change with the usual power.
    reach = _NORMAL.inv_cdf(gate.confidence) + _NORMAL.inv_cdf(POWER)
    n = math.ceil(estimate.n * (reach * stderr / margin) ** 2)
    passes = _chance_to_pass(gate, margin, stderr)
    return _Power(passes, n, stderr, ", if they vary as these do")


def _chance_to_pass(gate: Gate, margin: float, stderr: float) -> float:
    reach = _NORMAL.inv_cdf(gate.confidence) * stderr
    return normal_chances([(-margin, True)], 0.0, stderr, reach)[1]


def _with_answers(
    gate: Gate, estimate: ChangeEstimate, margin: float, stderr: float
) -> str:
    """Recommends several answers to each document, if answers flip both ways as they do
    by chance and documents are enough; else empty."""
    shares = estimate.shares
    if shares is None or gate.reducer or not min(shares.gained, shares.lost):
        return ""
    if documents_for(1 - gate.confidence, margin) > estimate.n:
        return ""
    power = _chance_to_pass(gate, margin, stderr / math.sqrt(_ANSWERS))
    return (
        f"; if answers are sampled and flip by chance, {_ANSWERS} answers to each "
        f"document in both runs (repeats: {_ANSWERS}, reducer: mean) make it up to "
        f"{percent(power)}"
    )


def offer_of_assumption(gate: Gate, margin: float, width: float) -> str:
    """The number of documents that a baseline gate would need with ``largest_drop``,
    half of the width of the range; empty if it has the key, or no use for it."""
    assumed = width / 2
    if gate.largest_drop is not None or gate.margin is None or gate.margin.sign < 0:
        return ""
    if not 0 < margin < assumed < math.inf:
        return ""
    n = documents_for(1 - gate.confidence, margin / assumed)
    return (
        f"; from {n:,} on if you can assume that no document loses more than "
        f"{assumed:g} (largest_drop: {assumed:g})"
    )
