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

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from pytest_evals.core.gate import Gate, Interval, Outcome, Verdict
from pytest_evals.errors import plural
from pytest_evals.gates.terms import (
    ChangeEstimate,
    Condition,
    Decision,
    GateEstimate,
    InvalidGateError,
    compares_limits,
    conditions_of,
    figure,
    figure_beside,
    missing_count,
    p_fails,
    p_passes,
)
from pytest_evals.stats.interval_methods import holm


def decide(
    gate: Gate, estimate: GateEstimate, bracket: Sequence[GateEstimate] = ()
) -> Decision:
    """The decision of a gate, if documents without a score cannot change it.
    ``bracket``: the estimates with these at their lowest and at their highest value.
    Raises ``InvalidGateError`` if they can."""
    conditions = conditions_of(gate, estimate)
    confidence = gate.confidence if compares_limits(gate, estimate) else None
    decision = compared(conditions, estimate, confidence)
    is_open = bool(conditions) and estimate.n_missing > 0
    if is_open and not _is_stable(gate, bracket, decision, confidence):
        raise InvalidGateError(_missing_decide(conditions, estimate, bracket))
    return decision


def compared(
    conditions: Sequence[Condition], estimate: GateEstimate, confidence: float | None
) -> Decision:
    """Compare an estimate with conditions, which must all hold; without any, the gate
    passes if there is a number. ``confidence``: of each limit, one-sided; ``None``
    compares the number."""
    if not conditions:
        return Decision(Outcome.PASSED)
    every = tuple(conditions)
    if confidence is None:
        failed = next((c for c in conditions if not c.holds(estimate.value)), None)
        nearest = min(conditions, key=lambda c: c.distance(estimate.value))
        outcome = Outcome.FAILED if failed else Outcome.PASSED
        return Decision(outcome, every, failed or nearest)
    interval = estimate.limits(confidence)
    outcome, condition = _compare(conditions, interval)
    return Decision(
        outcome,
        every,
        condition,
        interval,
        p_fails(conditions, estimate),
        p_passes(conditions, estimate),
    )


def _compare(
    conditions: Sequence[Condition], interval: Interval
) -> tuple[Outcome, Condition]:
    for one in conditions:
        if not one.holds(interval.high if one.is_lower else interval.low):
            return Outcome.FAILED, one
    for one in conditions:
        if not one.holds(_nearer(one, interval)):
            return Outcome.INCONCLUSIVE, one
    nearest = min(conditions, key=lambda c: c.distance(_nearer(c, interval)))
    return Outcome.PASSED, nearest


def _nearer(condition: Condition, interval: Interval) -> float:
    """The limit that is nearer to failing."""
    return interval.low if condition.is_lower else interval.high


def _is_stable(
    gate: Gate,
    bracket: Sequence[GateEstimate],
    decision: Decision,
    confidence: float | None,
) -> bool:
    """Whether the outcome is the same for all values of the documents without a score.

    From one extreme to the other, the outcome of one condition changes at most once; of
    two conditions, each may fail at one extreme, and none in between.
    """
    # The threshold of a relative margin depends on the documents too.
    cases = [(conditions_of(gate, one), one) for one in bracket]
    outcome = decision.outcome
    found = {compared(every, one, confidence).outcome for every, one in cases}
    if found != {outcome}:
        return False
    if outcome is Outcome.PASSED:
        return True
    return any(
        {compared([every[i]], one, confidence).outcome for every, one in cases}
        == {outcome}
        for i in range(len(decision.conditions))
    )


def _missing_decide(
    conditions: Sequence[Condition],
    estimate: GateEstimate,
    bracket: Sequence[GateEstimate],
) -> str:
    """Reason of a verdict that the documents without a score can change."""
    n = estimate.n + estimate.n_missing
    have = "has" if estimate.n_missing == 1 else "have"
    counts = missing_count(estimate.n_errored, estimate.n_unscored)
    text = f"{estimate.n_missing} of {plural(n, 'document')} {have} no score{counts}"
    if isinstance(estimate, ChangeEstimate):
        return f"{text}; the change depends on them"
    if not bracket or estimate.scale != "plain":
        return text
    values = [float(one.value) for one in bracket]
    bound = Fraction(conditions[0].threshold)
    low, high = (figure_beside(end, bound) for end in (min(values), max(values)))
    return f"{text}; the value is between {low} and {high}, so they decide the gate"


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
