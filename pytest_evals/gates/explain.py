"""The reasons and notes of verdicts as text."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial

from pytest_evals.core.gate import Change as ShownChange
from pytest_evals.core.gate import Gate, Interval, Outcome, Verdict
from pytest_evals.core.metric import MetricResult
from pytest_evals.core.result import AnyResult, GroupResult, TaskResult
from pytest_evals.errors import plural
from pytest_evals.gates.new_samples import (
    LOW_POWER,
    MOST_TIMES,
    Reversal,
    counts_that_hold,
    documents_to_decide,
    reversal_of,
    weakness_notes,
)
from pytest_evals.gates.observations import GateDocuments, Observations
from pytest_evals.gates.terms import (
    ChangeEstimate,
    Condition,
    Decision,
    GateEstimate,
    figure,
    figure_beside,
    missing_counts,
    percent,
    shown_change,
    suffix,
)

WITHIN_NOISE = "within noise"
"""Part of the reason of a verdict with a threshold within the confidence interval."""
NO_NOISE = "the noise between runs is unknown, so this run's number is compared"


def is_about_noise(note: str) -> bool:
    """Whether a note is about the chance of another verdict, or about low power."""
    return note.startswith((WITHIN_NOISE, LOW_POWER))


def skipped_reason(metric: MetricResult | None, result: AnyResult) -> str:
    """The number of documents that were run, and the value over these."""
    if metric is not None and isinstance(result, GroupResult):
        result = result.having(metric.name, metric.filter)
    # A task may belong to a group twice, so its documents cannot be counted by the
    # metric.
    counted = metric is not None and isinstance(result, TaskResult)
    n_missing = metric.n_missing if metric and counted else result.n_missing
    n_run = result.n_selected - n_missing
    reason = f"{n_run} of {plural(result.n_selected, 'document')} were run"
    if metric is not None and metric.estimate is not None and metric.n_scored:
        reason += f"; indicative value {figure(metric.estimate.value)}"
    return reason


def explained(
    gate: Gate, seen: GateDocuments, estimate: GateEstimate, decision: Decision
) -> Verdict:
    """The verdict with its numbers, reasons and notes."""
    failed = decision.outcome is Outcome.FAILED
    metric, condition = _shown_metric(seen, estimate), decision.condition
    verdict = Verdict(
        gate=gate,
        outcome=decision.outcome,
        metric=metric,
        short=condition.distance(estimate.value) if failed and condition else 0.0,
        conclusion=_conclusion(gate, estimate, decision),
        method=_method_of(gate, estimate, decision),
        interval=decision.interval,
        p_fails=decision.p_fails,
        p_passes=decision.p_passes,
        notes=estimate.notes if decision.interval else (),
    )
    if isinstance(estimate, ChangeEstimate):
        return _explained_change(verdict, seen, estimate, decision)
    if decision.interval:
        return replace(verdict, reason=_limits_reason(gate, estimate, decision))
    n_short = _correct_short(metric, estimate, decision) if failed else None
    stderr, rerun = (metric.estimate and metric.estimate.stderr) or 0.0, None
    if gate.flip_rate is not None and (estimate.is_share or gate.measured):
        rerun = math.sqrt(gate.flip_rate / (2 * estimate.n))
    reversal = reversal_of(decision, estimate, stderr, rerun)
    reason = _number_reason(gate, metric, estimate, decision, reversal)
    return replace(verdict, n_short=n_short, reason=reason)


def _shown_metric(seen: GateDocuments, estimate: GateEstimate) -> MetricResult:
    """The metric with the value that the gate judges, if that is another one."""
    metric, number = seen.metric, seen.metric.estimate
    is_change = isinstance(estimate, ChangeEstimate)
    if number is None or (is_change and not estimate.n_whole):
        return metric
    value = estimate.now if isinstance(estimate, ChangeEstimate) else estimate.value
    number = replace(number, value=float(value))
    if estimate.spread is None or not (estimate.n_labels or estimate.n_whole):
        return replace(metric, estimate=number)
    number = replace(number, stderr=estimate.spread.stderr)
    return replace(metric, estimate=number, total=None)


def _explained_change(
    verdict: Verdict, seen: GateDocuments, estimate: ChangeEstimate, decision: Decision
) -> Verdict:
    gate, condition = verdict.gate, decision.condition
    assert condition is not None
    change = _shown(gate, estimate, condition)
    notes, spread = [*verdict.notes], estimate.spread
    if gate.over == "run" and not decision.interval and estimate.scale == "plain":
        reversal = spread and reversal_of(decision, estimate, spread.stderr)
        show = partial(shown_change, unit=change.unit)
        if reversal:
            notes.append(_reversal_text(reversal, decision.outcome, show))
    elif gate.over == "population":
        notes += _real_change(decision)
        notes += weakness_notes(gate, estimate, decision)
    worse: dict[str, str] = {}
    if isinstance(seen, Observations) and gate.baseline:
        assert seen.reference is not None
        worse = _worse(gate, seen, estimate)
        if decision.outcome is not Outcome.PASSED:
            notes += seen.reference.notes
    failed = decision.outcome is Outcome.FAILED
    return replace(
        verdict,
        short=abs(change.difference - change.bar) if failed else 0.0,
        reason=_change_reason(gate, estimate, decision, change),
        change=change,
        documents=tuple(worse),
        previous={id_: answer for id_, answer in worse.items() if answer},
        notes=tuple(notes),
    )


def _worse(gate: Gate, seen: Observations, estimate: ChangeEstimate) -> dict[str, str]:
    """Ids of documents with a worse value than in the baseline → their answer there,
    empty if it is not stored."""
    assert gate.margin is not None
    assert estimate.pairs is not None
    assert seen.reference is not None
    ids, sign, filter_ = seen.ids, gate.margin.sign, seen.metric.filter
    before = {at: one.answers for at, one in seen.reference.compared.items()}
    return {
        ids[position]: before.get(position, {}).get(filter_, "")
        for position, old, new in zip(*estimate.pairs[:3], strict=True)
        if isinstance(old, (int, float))
        and isinstance(new, (int, float))
        and sign * (new - old) < 0
    }


def _correct_short(
    metric: MetricResult, estimate: GateEstimate, decision: Decision
) -> int | None:
    """The number of further correct documents with which all conditions would hold;
    ``None`` if no number is enough, or if documents are not counted."""
    count, n = estimate.count, estimate.n + estimate.n_missing
    holding = counts_that_hold(decision.conditions, n)
    if count is None or not holding:
        return None
    worse = metric.higher_is_better is False
    short = count - holding[-1] if worse else holding[0] - count
    return short if short > 0 else None


def _number_reason(
    gate: Gate,
    metric: MetricResult,
    estimate: GateEstimate,
    decision: Decision,
    reversal: Reversal | None,
) -> str:
    if decision.condition is None:
        return f"{metric.name} is present: {figure(float(estimate.value))}"
    text = _statement(gate, estimate, decision)
    if estimate.count is not None:
        text += f" ({estimate.count} of {estimate.n})"
    text += _unscored(estimate)
    if gate.over == "benchmark":
        text += f"; {NO_NOISE}"
    if reversal is not None:
        text += f"; {_reversal_text(reversal, decision.outcome, figure)}"
    return text


def _statement(gate: Gate, estimate: GateEstimate, decision: Decision) -> str:
    """The number, its confidence limits and the threshold."""
    condition, interval = decision.condition, decision.interval
    assert condition is not None
    show = partial(figure_beside, threshold=Fraction(condition.threshold))
    value = show(float(estimate.value))
    limits = "" if interval is None else f", {_limits(gate, interval, show)}"
    if decision.outcome is Outcome.INCONCLUSIVE:
        return f"{value}{limits} contains {condition.edge}"
    if decision.outcome is Outcome.FAILED:
        return f"{value} is not {condition.text}{limits}"
    return f"{value} {' and '.join(map(str, gate.bounds))}{limits}"


def _reversal_text(
    reversal: Reversal, outcome: Outcome, show: Callable[[float], str]
) -> str:
    low, high = reversal.interval.low, reversal.interval.high
    would = "pass" if outcome is Outcome.FAILED else "fail"
    text = (
        f"{WITHIN_NOISE}: 90% CI {show(low)} to {show(high)}; predicted to {would} on "
        f"{percent(reversal.probability)} of new samples of this size"
    )
    if reversal.rerun is not None:
        text += f", and in {percent(reversal.rerun)} of reruns"
    return text


def _conclusion(gate: Gate, estimate: GateEstimate, decision: Decision) -> str:
    """What the confidence limits show, in plain words; empty if the number was
    compared."""
    if decision.interval is None or decision.condition is None:
        return ""
    passed = decision.outcome is Outcome.PASSED
    if decision.outcome is Outcome.INCONCLUSIVE:
        if gate.over == "benchmark":
            return "another run may decide otherwise"
        units = "human labels" if estimate.n_labels else "documents"
        return f"not enough {units} to tell"
    if isinstance(estimate, ChangeEstimate):
        return f"proven {'not ' * passed}worse than allowed"
    if passed and len(gate.bounds) > 1:
        return "proven within the bounds"
    is_high = passed is decision.condition.is_lower
    word = "high" if is_high else "low"
    return f"proven {word} enough" if passed else f"proven too {word}"


def _method_of(gate: Gate, estimate: GateEstimate, decision: Decision) -> str:
    if decision.interval is None:
        return f"over: {gate.over}"
    return (
        f"over: {gate.over}, {estimate.method}; {gate.ci}: both one-sided limits at "
        f"{percent(gate.confidence)}"
    )


def _limits_reason(gate: Gate, estimate: GateEstimate, decision: Decision) -> str:
    condition = decision.condition
    assert condition is not None
    counted = plural(estimate.n, "document")
    if estimate.count is not None:
        counted = f"{estimate.count} of {estimate.n}"
    if estimate.n_labels:
        counted = f"{estimate.n_labels} human labels, {counted}"
    if estimate.n_whole:
        counted = _asked(estimate, gate.control)
    text = f"{_statement(gate, estimate, decision)} ({counted}){_unscored(estimate)}"
    if decision.outcome is not Outcome.INCONCLUSIVE:
        return text
    if estimate.n_labels:
        text += _judge_error(estimate, condition)
    if estimate.n_labels or gate.over == "population":
        text += _to_decide(gate, estimate, decision.conditions)
    return text


def _asked(estimate: GateEstimate, baseline: str) -> str:
    n = estimate.n + estimate.n_missing
    known = f"{estimate.n_whole - n:,} from the knowledge of {baseline}"
    return f"{plural(n, 'document')} asked, {known}"


def _judge_error(estimate: GateEstimate, condition: Condition) -> str:
    """The distance from the threshold next to the judge's error."""
    value, edge = float(estimate.value), float(condition.threshold)
    low, high = estimate.judge_limits
    margin, error = abs(value - edge), high - value if value < edge else value - low
    word = "smaller" if margin < error else "larger"
    return (
        f"; its distance from {condition.edge}, {figure(margin)}, is {word} than the "
        f"judge's error, {figure(error)}"
    )


def _limits(gate: Gate, interval: Interval, show: Callable[[float], str]) -> str:
    """Both one-sided limits together: ``90% CI [0.7, 0.8]`` at a confidence of 0.95."""
    return f"{gate.ci} [{show(interval.low)}, {show(interval.high)}]"


def _unscored(estimate: GateEstimate) -> str:
    n = estimate.n_missing
    if not n:
        return ""
    counts = " and ".join(missing_counts(estimate.n_errored, estimate.n_unscored))
    return f"; {counts} document{'s' * (n > 1)} cannot change the verdict"


def _to_decide(
    gate: Gate, estimate: GateEstimate, conditions: Sequence[Condition]
) -> str:
    n, assumption = documents_to_decide(gate, conditions, estimate)
    units = "human labels" if estimate.n_labels else "documents"
    if n is None and estimate.n_labels and gate.over == "run":
        return f"; labels of all {estimate.n:,} documents decide it"
    if n is None and any(not one.distance(estimate.value) for one in conditions):
        return f"; no number of {units} decides a value at the threshold"
    if n is None:
        return f"; {MOST_TIMES} times as many {units} would not decide it {assumption}"
    return f"; about {n:,} {units} would decide it {assumption}"


def _change_reason(
    gate: Gate, estimate: ChangeEstimate, decision: Decision, change: ShownChange
) -> str:
    interval, show = decision.interval, partial(shown_change, unit=change.unit)
    edge = show(change.bar) + suffix(change.unit)
    show = partial(show, bar=change.bar)
    limits = "" if interval is None else f", {_limits(gate, interval, show)}"
    text = f"{figure(change.now)} vs {change.baseline} {figure(change.before)}: "
    text += show(change.difference)
    if decision.outcome is Outcome.INCONCLUSIVE:
        text += f"{limits} contains {edge}"
    else:
        verb = " is not" if decision.outcome is Outcome.FAILED else ""
        text += f"{verb} {change.op} {edge}{limits}"
    counted = plural(change.n, "document")
    if estimate.n_whole:
        counted = _asked(estimate, gate.baseline)
    if change.gained is not None:
        counted += f", {change.gained} gained / {change.lost} lost"
    text += f" ({counted}){_unscored(estimate)}"
    return f"{text}; {NO_NOISE}" if gate.over == "benchmark" and not interval else text


def _shown(gate: Gate, estimate: ChangeEstimate, condition: Condition) -> ShownChange:
    """The change as reports show it. ``condition`` is the smallest or largest
    allowed change."""
    gained = lost = None
    if estimate.shares is not None:
        gained, lost = int(estimate.shares.gained), int(estimate.shares.lost)
        if gate.margin is not None and gate.margin.sign < 0:  # 1 means wrong
            gained, lost = lost, gained
    return ShownChange(
        baseline=gate.baseline or "reference",
        before=float(estimate.before),
        now=float(estimate.now),
        difference=float(estimate.value),
        op=">=" if condition.is_lower else "<=",
        bar=float(condition.threshold),
        unit=estimate.unit,
        n=estimate.n,
        gained=gained,
        lost=lost,
    )


def _real_change(decision: Decision) -> Iterator[str]:
    """Yield that a change for the worse is significant although it is allowed."""
    condition, interval = decision.condition, decision.interval
    if condition is None or interval is None or decision.outcome is Outcome.FAILED:
        return
    if interval.high < 0 if condition.is_lower else interval.low > 0:
        word = "drop" if condition.is_lower else "rise"
        is_allowed = decision.outcome is Outcome.PASSED
        allowed = ", within the margin" if is_allowed else ""
        yield f"a significant {word}{allowed}"
