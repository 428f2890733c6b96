"""Decide a gate: compare an estimate with the gate's conditions.

A gate without an inference target compares the number: exactly if documents are
counted (7 of 10 is at least 0.7), else up to rounding errors (one part in 10**12, or
10**-15 near zero; within these, ``>=`` and ``<=`` hold, ``>`` and ``<`` do not). All
others compare one-sided confidence limits: passed if the limit nearer to the threshold
meets it, failed if the other one does not, else inconclusive.

Failures among the gates of a family are corrected by Holm (1979). Passing needs no
correction, because all gates must pass.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Literal, NamedTuple

from pytest_evals.core.gate import Gate, Interval, Margin, Outcome, Verdict
from pytest_evals.gates.estimate.estimate import (
    Bracket,
    ChangeEstimate,
    GateEstimate,
    Value,
)
from pytest_evals.gates.formatting import figure
from pytest_evals.stats.multiplicity import holm

_RELATIVE, _ABSOLUTE = 1e-12, 1e-15


class Condition(NamedTuple):
    """One side of a gate.

    Args:
        threshold: On the scale of the estimate.
        text: As typed.
    """

    op: Literal[">=", ">", "<=", "<"]
    threshold: Value
    text: str

    @property
    def is_lower(self) -> bool:
        """Whether it limits the number from below."""
        return self.op in (">=", ">")

    def holds(self, value: Value) -> bool:
        """Whether a finite number satisfies the condition."""
        side = _side(value, self.threshold)
        if side == 0:
            return self.op in (">=", "<=")
        return (side > 0) == self.is_lower


class Decision(NamedTuple):
    """The outcome of a gate.

    Args:
        condition: The one that decided it; ``None`` for gates without conditions.
        interval: The confidence limits, ``None`` if the number was compared.
        p_fails: One-sided p-value of "all conditions hold": small values are evidence
            of a failure; ``None`` if the number was compared or no condition can fail.
        p_passes: One-sided p-value of "a condition does not hold".
    """

    outcome: Outcome
    condition: Condition | None = None
    interval: Interval | None = None
    p_fails: float | None = None
    p_passes: float | None = None


def conditions_of(gate: Gate, estimate: GateEstimate) -> list[Condition]:
    """The conditions of a gate on the scale of its estimate."""
    if gate.margin is not None and isinstance(estimate, ChangeEstimate):
        return [margin_condition(gate.margin, estimate)]
    return [Condition(b.op, Fraction(b.value), str(b)) for b in gate.bounds]


def margin_condition(margin: Margin, estimate: ChangeEstimate) -> Condition:
    """The smallest or largest change that a margin allows."""
    before, threshold = estimate.before, Fraction(margin.value)
    if margin.key == "recovery":
        threshold = 1 - threshold
    allowed: Value = threshold
    if estimate.scale == "log1p":
        # Relative to the baseline's value, like the estimate.
        share = margin.allowed(float(before)) / float(before)
        allowed = min(share, 1.0) if margin.sign > 0 else share
    elif margin.relative:
        if isinstance(before, Fraction):
            allowed = threshold * abs(before)
        else:
            allowed = float(threshold) * abs(before)
    elif not isinstance(before, Fraction):
        allowed = float(threshold)
    op: Literal[">=", "<="] = ">=" if margin.sign > 0 else "<="
    return Condition(op, -margin.sign * allowed, str(margin))


def decide(
    conditions: Sequence[Condition], estimate: GateEstimate, confidence: float | None
) -> Decision:
    """Compare an estimate with conditions.

    Args:
        conditions: All must hold; without any, the gate passes if there is a number.
        confidence: Of each limit, one-sided; ``None`` compares the number.
    """
    if not conditions:
        return Decision(Outcome.PASSED)
    if confidence is None:
        failed = next((c for c in conditions if not c.holds(estimate.value)), None)
        nearest = min(conditions, key=lambda c: distance(c, estimate.value))
        outcome = Outcome.FAILED if failed else Outcome.PASSED
        return Decision(outcome, failed or nearest)
    interval = estimate.limits(confidence)
    outcome, condition = _compare(conditions, interval)
    return Decision(
        outcome,
        condition,
        interval,
        p_fails(conditions, estimate),
        p_passes(conditions, estimate),
    )


def p_fails(conditions: Sequence[Condition], estimate: GateEstimate) -> float | None:
    """One-sided p-value of a failure; ``None`` if no condition can fail."""
    able = [one for one in conditions if _can_fail(one, estimate)]
    return min((_p_fails(one, estimate) for one in able), default=None)


def p_passes(conditions: Sequence[Condition], estimate: GateEstimate) -> float:
    """One-sided p-value of a pass."""
    return max(_p_holds(one, estimate) for one in conditions)


def _compare(
    conditions: Sequence[Condition], interval: Interval
) -> tuple[Outcome, Condition]:
    """The outcome, and the condition that decides it."""
    for one in conditions:
        if not one.holds(interval.high if one.is_lower else interval.low):
            return Outcome.FAILED, one
    for one in conditions:
        if not one.holds(_nearer(one, interval)):
            return Outcome.INCONCLUSIVE, one
    nearest = min(conditions, key=lambda c: distance(c, _nearer(c, interval)))
    return Outcome.PASSED, nearest


def _nearer(condition: Condition, interval: Interval) -> float:
    """The limit that is nearer to failing."""
    return interval.low if condition.is_lower else interval.high


def _can_fail(condition: Condition, estimate: GateEstimate) -> bool:
    low, high = estimate.range
    edge = condition.threshold
    return edge > low if condition.is_lower else edge < high


def _p_fails(condition: Condition, estimate: GateEstimate) -> float:
    edge = float(condition.threshold)
    return estimate.p_less(edge) if condition.is_lower else estimate.p_greater(edge)


def _p_holds(condition: Condition, estimate: GateEstimate) -> float:
    edge = float(condition.threshold)
    return estimate.p_greater(edge) if condition.is_lower else estimate.p_less(edge)


def is_stable(
    gate: Gate,
    estimate: GateEstimate,
    bracket: Bracket,
    outcome: Outcome,
    confidence: float | None,
) -> bool:
    """Whether the outcome is the same for all values of the documents without a score.

    From one extreme to the other, the outcome of one condition changes at most once; of
    two conditions, each may fail at one extreme, and none in between.
    """
    # The threshold of a relative margin depends on the documents too.
    cases = [(conditions_of(gate, one), one) for one in bracket]
    found = {decide(every, one, confidence).outcome for every, one in cases}
    if found != {outcome}:
        return False
    each_count = estimate.is_share and not gate.cluster
    is_complete = each_count and len(cases) == estimate.n_missing + 1
    if outcome is Outcome.PASSED or is_complete:
        return True
    return any(
        {decide([every[i]], one, confidence).outcome for every, one in cases}
        == {outcome}
        for i in range(len(cases[0][0]))
    )


def distance(condition: Condition, value: Value) -> float:
    """The absolute distance of a number from the threshold; infinite if it exceeds the
    range of a double."""
    try:
        return abs(float(Fraction(value) - Fraction(condition.threshold)))
    except (OverflowError, ValueError):  # too large, or the number is not finite
        return math.inf


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


def correct_short(
    conditions: Sequence[Condition], count: int, n: int, higher_is_better: bool | None
) -> int | None:
    """The number of further correct documents, of ``n``, with which all conditions
    would hold.

    Args:
        conditions: On the share of documents with value 1; at least one does not hold.
        count: Documents with value 1.
        higher_is_better: Whether 1 is correct; ``None`` counts as true.

    Returns:
        The smallest such number; ``None`` if missing.
    """
    holding = counts_that_hold(conditions, n)
    if not holding:
        return None
    worse = higher_is_better is False
    short = count - holding[-1] if worse else holding[0] - count
    return short if short > 0 else None


def _side(value: Value, edge: Value) -> int:
    """-1 below the edge, 0 on it, 1 above."""
    if isinstance(value, Fraction) and isinstance(edge, Fraction):
        return (value > edge) - (value < edge)
    there, limit = float(value), float(edge)
    if math.isclose(there, limit, rel_tol=_RELATIVE, abs_tol=_ABSOLUTE):
        return 0
    return 1 if there > limit else -1


def family_of(gate: Gate) -> tuple[str, str] | None:
    """The family of a gate: by default its task or group, if named the whole session's;
    ``None`` if it has none."""
    if gate.family == "none":
        return None
    return (gate.family, "") if gate.family else ("", gate.task)


def corrected(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """The verdicts in their order, corrected by Holm (1979) within each family.

    A gate that fails on its own but not after the correction is inconclusive. Gates
    without a p-value are not corrected: those that compare the number, and those that
    cannot fail.
    """
    families: dict[tuple[str, str], list[int]] = {}
    for i, verdict in enumerate(verdicts):
        family = family_of(verdict.gate)
        if family is not None and verdict.p_fails is not None:
            families.setdefault(family, []).append(i)
    result = [*verdicts]
    for members in families.values():
        adjusted = holm([verdicts[i].p_fails or 0.0 for i in members])
        for i, p in zip(members, adjusted, strict=True):
            result[i] = _with(verdicts[i], p, len(members))
    return result


def _with(verdict: Verdict, p_adjusted: float, n: int) -> Verdict:
    """The verdict with its corrected p-value."""
    gate, p_value = verdict.gate, verdict.p_fails or 0.0
    changed = replace(verdict, p_adjusted=p_adjusted)
    if verdict.outcome is not Outcome.FAILED or n == 1 or p_value >= 0.5:
        return changed
    among = (
        f"p = {figure(p_value)} alone, {figure(p_adjusted)} after Holm over {n} gates"
    )
    changed = replace(changed, method=f"{verdict.method}; {among}")
    if p_adjusted <= 1 - gate.confidence:
        return changed
    return replace(
        changed,
        outcome=Outcome.INCONCLUSIVE,
        fails_alone=True,
        short=0.0,
        conclusion=f"{verdict.conclusion} alone, not among {n} gates",
    )
