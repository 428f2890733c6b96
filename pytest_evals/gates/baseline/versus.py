"""A gate on a metric beside a baseline, over the same documents.

Usually the paired test: it passes when the noise leaves no doubt that the metric is not
worse than its margin, fails when it leaves none that it is, and is inconclusive
between. ``over: run`` compares the difference itself.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

from pytest_evals.core.gate import Change, Gate, Interval, Outcome, Verdict
from pytest_evals.core.metric import MetricResult
from pytest_evals.core.reference import Reference
from pytest_evals.core.result import TaskResult
from pytest_evals.errors import EvalsError
from pytest_evals.gates.baseline.moving import Moved, between_runs, moved
from pytest_evals.gates.baseline.pairs import Pairs, ends_of, lacking_text, pairs_of
from pytest_evals.gates.baseline.strength import remarks
from pytest_evals.gates.bounds.compare import side
from pytest_evals.gates.evidence.documents import labels_of
from pytest_evals.gates.evidence.reading import shortfall
from pytest_evals.gates.evidence.unsound import UnsoundError
from pytest_evals.gates.noise.chance import NO_RECORD
from pytest_evals.gates.noise.placed import Placed
from pytest_evals.gates.wording.changes import change_text, shown_bar, shown_change
from pytest_evals.stats.spread import Still

__all__ = [
    "Decided",
    "check_direction",
    "check_varies",
    "decide",
    "direction_fault",
    "judge_change",
    "moved_of",
    "verdict_of",
]


_ROUNDING = 1e-12
_LARGEST_LOG = 700.0
"""Whose antilogarithm a double still holds."""


class Decided(NamedTuple):
    """What the numbers of a baseline gate say."""

    outcome: Outcome
    change: Change
    interval: Interval | None = None
    p_fails: float | None = None
    p_passes: float | None = None


def judge_change(
    gate: Gate, metric: MetricResult, result: TaskResult, reference: Reference
) -> Verdict:
    """What becomes of a baseline gate of a task.

    Args:
        gate: The gate.
        metric: What it is about, with all documents that were to be run.
        result: The task.
        reference: What the task was in the baseline.

    Raises:
        UnsoundError: There is nothing sound to judge.
    """
    check_direction(gate, metric)
    pairs, found = moved_of(gate, metric, result, reference)
    decided = decide(gate, found)
    ends = ends_of(gate, metric, result, pairs, found)
    if {decide(gate, end).outcome for end in ends} != {decided.outcome}:
        raise UnsoundError(lacking_text(metric))
    verdict = verdict_of(gate, metric, decided, found)
    notes = verdict.notes
    if verdict.outcome is not Outcome.PASSED:
        notes += reference.notes
    return replace(verdict, documents=_worse(gate, result, pairs), notes=notes)


def check_direction(gate: Gate, metric: MetricResult) -> None:
    """Make sure that the margin is on the side of what is worse.

    Raises:
        UnsoundError: It is not, as far as anybody knows.
    """
    fault = direction_fault(gate, metric.higher_is_better)
    if fault:
        raise UnsoundError(fault)


def direction_fault(gate: Gate, higher_is_better: bool | None) -> str:
    """Why the margin is on the wrong side; empty if it is not, or nobody knows."""
    margin = gate.margin
    if margin is None or higher_is_better in (None, margin.sign > 0):
        return ""
    fit, way = ("max_drop", "higher") if higher_is_better else ("max_rise", "lower")
    return f"{gate.metric} is better when {way}: bound it by {fit}, not by {margin.key}"


def moved_of(
    gate: Gate, metric: MetricResult, result: TaskResult, reference: Reference
) -> tuple[Pairs, Moved]:
    """The values of both runs, and how far the metric has moved.

    Raises:
        UnsoundError: The runs cannot be compared, or nothing says how it varies.
    """
    if reference.fault and reference.is_replaced:
        why = f"not compared, since this run becomes the baseline: {reference.fault}"
        raise UnsoundError(why, Outcome.SKIPPED)
    if reference.fault:
        raise UnsoundError(reference.fault)
    pairs = pairs_of(gate, metric, result, reference)
    labels = labels_of(result, gate.cluster, pairs.positions)
    assert metric.how is not None
    only_number = gate.over != "population" and gate.each is None
    try:
        found = moved(metric.how, pairs.old, pairs.new, labels, only_number=only_number)
    except (EvalsError, ValueError, TypeError, ArithmeticError, LookupError) as error:
        why = f"{metric.key} cannot be compared: {error}"
        raise UnsoundError(why) from error
    return pairs, between_runs(gate, found)


def decide(gate: Gate, found: Moved) -> Decided:
    """The outcome of a change, with the numbers that it rests on.

    Args:
        gate: The claim.
        found: The change, placed by the noise that the gate counts.

    Raises:
        UnsoundError: Nothing says how it varies.
    """
    margin = gate.margin
    assert margin is not None
    bar = _bar(gate, found)
    if gate.over == "run" or (gate.over == "benchmark" and gate.flip_rate is None):
        away = side(found.difference, bar) * margin.sign
        outcome = Outcome.FAILED if away < 0 else Outcome.PASSED
        return Decided(outcome, _change(gate, found, bar))
    check_varies(gate, found)
    placed = found.placed
    spread = placed.spread
    low, high = spread.interval(gate.confidence)
    if margin.sign > 0:
        proven, broken = low >= bar, high < bar
        p_fails, p_passes = spread.p_less(float(bar)), spread.p_greater(float(bar))
    else:
        proven, broken = high <= bar, low > bar
        p_fails, p_passes = spread.p_greater(float(bar)), spread.p_less(float(bar))
    outcome = Outcome.INCONCLUSIVE
    if proven or broken:
        outcome = Outcome.PASSED if proven else Outcome.FAILED
    ends = (_natural(low, placed), _natural(high, placed))
    interval = Interval(*ends, placed.method)
    change = _change(gate, found, bar)
    return Decided(outcome, change, interval, p_fails, p_passes)


def check_varies(gate: Gate, found: Moved) -> None:
    """Make sure that documents have not all changed by the same.

    Raises:
        UnsoundError: They have.
    """
    spread = found.placed.spread
    if isinstance(spread, Still) and abs(spread.value) > _ROUNDING:
        raise UnsoundError(
            f"{gate.metric} has changed by the same in all {found.n} documents, which "
            "says nothing of how others would vary; over: run compares the number"
        )


def _bar(gate: Gate, found: Moved) -> Fraction | float:
    """What the difference must keep to, on the scale on which it is compared."""
    margin = gate.margin
    assert margin is not None
    if found.placed.is_log:
        before = float(found.before)
        rest = 1 - margin.sign * margin.allowed(before) / before
        return math.log(rest) if rest > 0 else -math.inf
    if not isinstance(found.before, Fraction):
        return -margin.sign * margin.allowed(found.before)
    allowed = Fraction(margin.value)
    if margin.key == "recovery":
        allowed = 1 - allowed
    return -margin.sign * (allowed * found.before if margin.relative else allowed)


def _natural(value: float, placed: Placed) -> float:
    if not placed.is_log:
        return value
    return math.expm1(value) if value < _LARGEST_LOG else math.inf


def _change(gate: Gate, found: Moved, bar: Fraction | float) -> Change:
    margin, shares = gate.margin, found.shares
    assert margin is not None
    gained = lost = None
    if shares is not None:
        gained, lost = shares.gained, shares.lost
        if margin.sign < 0:  # a 1 is a mistake
            gained, lost = lost, gained
    return Change(
        baseline=gate.baseline,
        before=float(found.before),
        now=float(found.now),
        difference=_natural(float(found.difference), found.placed),
        op=">=" if margin.sign > 0 else "<=",
        bar=_natural(float(bar), found.placed),
        unit=found.unit,
        n=found.n,
        gained=gained,
        lost=lost,
    )


def _worse(gate: Gate, result: TaskResult, pairs: Pairs) -> tuple[str, ...]:
    """Ids of documents whose value is worse than in the baseline, if that can be
    told."""
    assert gate.margin is not None
    sign = gate.margin.sign
    ids = {record.index: record.doc.id for record in result.records}
    return tuple(
        ids[position]
        for position, old, new in zip(*pairs[:3], strict=True)
        if isinstance(old, (int, float))
        and isinstance(new, (int, float))
        and sign * (new - old) < 0
    )


def verdict_of(
    gate: Gate, metric: MetricResult, decided: Decided, found: Moved
) -> Verdict:
    """What was decided, with all that is to be said of it."""
    change, failed = decided.change, decided.outcome is Outcome.FAILED
    reason = _reason(gate, decided)
    lacking = metric.n_errored + metric.n_unscored
    if lacking:
        counts = shortfall(metric.n_errored, metric.n_unscored)
        reason += f"; no score of {lacking} more{counts} could turn it"
    about = found.placed.notes if decided.interval else ()
    return Verdict(
        gate=gate,
        outcome=decided.outcome,
        metric=metric,
        short=abs(change.difference - change.bar) if failed else 0.0,
        reason=reason,
        interval=decided.interval,
        change=change,
        p_fails=decided.p_fails,
        p_passes=decided.p_passes,
        notes=(*about, *remarks(gate, decided.outcome, change, found)),
    )


def _reason(gate: Gate, decided: Decided) -> str:
    change, interval = decided.change, decided.interval
    bar = shown_bar(change)
    said = {
        Outcome.PASSED: bar,
        Outcome.FAILED: f"is not {bar}",
        Outcome.INCONCLUSIVE: f"leaves {bar} open",
    }[decided.outcome]
    text = change_text(change)
    how = f"over: {gate.over}"
    if interval is not None:
        ends = (shown_change(end, change.unit) for end in (interval.low, interval.high))
        text += f" [{', '.join(ends)}]"
        how += f", {interval.method}, confidence {gate.confidence:g}"
    counted = f"{change.n} documents"
    if change.gained is not None:
        counted += f", {change.gained} gained / {change.lost} lost"
    text = f"{text} {said} ({counted}; {how})"
    return f"{text}; {NO_RECORD}" if gate.over == "benchmark" and not interval else text
