"""The reasons and notes of verdicts as text."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from statistics import NormalDist

from pytest_evals.core.gate import Change as ShownChange
from pytest_evals.core.gate import Gate, Interval, Outcome, Unit, Verdict
from pytest_evals.core.metric import MetricResult
from pytest_evals.core.result import GroupResult, TaskResult
from pytest_evals.gates.formatting import (
    change_text,
    figure,
    figure_beside,
    offer_of_assumption,
    shown_bar,
    shown_change,
    suffix,
)
from pytest_evals.gates.observations import GroupObservations, Observations
from pytest_evals.gates.reversal import Reversal, counts_that_hold, reversal_of
from pytest_evals.gates.terms import (
    ChangeEstimate,
    Condition,
    Decision,
    GateEstimate,
    p_fails,
    p_passes,
)
from pytest_evals.stats.interval_methods import Proportion
from pytest_evals.stats.paired_proportions import PairedProportions
from pytest_evals.stats.power import documents_for, first_that

WITHIN_NOISE = "within noise"
"""Part of the reason of a verdict with a threshold within the confidence interval."""
_ANSWERS = 4
"""Answers to each document that are recommended."""
LOW_POWER = "low power"
NO_NOISE = "the noise between runs is unknown, so this run's number is compared"
MOST_TIMES = 100
"""If more than this many times the scored documents are needed, no number is
suggested."""
POWER = 0.8
"""Required probability that an unchanged model passes."""
WEAK = 0.5
FEW = 5
"""Correct or wrong answers from which on the normal approximation is used."""
_CONFIDENCE = 0.95
_CI = "90% CI"
_NORMAL = NormalDist()


def is_about_noise(note: str) -> bool:
    """Whether a note is about the chance of another verdict, or about low power."""
    return note.startswith((WITHIN_NOISE, LOW_POWER))


def skipped_reason(
    metric: MetricResult | None, result: TaskResult | GroupResult
) -> str:
    """The number of documents that were run, and the value over these."""
    if metric is not None and isinstance(result, GroupResult):
        result = result.having(metric.name, metric.filter)
    # A task may belong to a group twice, so its documents cannot be counted by the
    # metric.
    counted = metric is not None and isinstance(result, TaskResult)
    n_missing = metric.n_missing if metric and counted else result.n_missing
    n_run = result.n_selected - n_missing
    reason = f"{n_run} of {result.n_selected} documents were run"
    if metric is not None and metric.estimate is not None and metric.n_scored:
        reason += f"; indicative value {figure(metric.estimate.value)}"
    return reason


def explained(
    gate: Gate,
    seen: Observations | GroupObservations,
    estimate: GateEstimate,
    decision: Decision,
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
    n_short = None
    if failed and estimate.count is not None:
        n, better = estimate.n + estimate.n_missing, metric.higher_is_better
        n_short = _correct_short(decision.conditions, estimate.count, n, better)
    stderr, rerun = (metric.estimate and metric.estimate.stderr) or 0.0, None
    if gate.flip_rate is not None and (estimate.is_share or gate.measured):
        rerun = math.sqrt(gate.flip_rate / (2 * estimate.n))
    reversal = reversal_of(decision, estimate, stderr, rerun)
    reason = _number_reason(gate, metric, estimate, decision, reversal)
    return replace(verdict, n_short=n_short, reason=reason)


def _shown_metric(
    seen: Observations | GroupObservations, estimate: GateEstimate
) -> MetricResult:
    """The metric with the value that the gate judges, if that is another one."""
    metric, number = seen.metric, seen.metric.estimate
    if number is None or isinstance(estimate, ChangeEstimate):
        return metric
    if number.value != estimate.value:
        metric = replace(metric, estimate=replace(number, value=float(estimate.value)))
    if not (estimate.n_labels or estimate.n_whole):
        return metric
    assert estimate.spread is not None
    stderr = estimate.spread.stderr
    changed = replace(number, value=float(estimate.value), stderr=stderr)
    return replace(metric, estimate=changed, total=None)


def _explained_change(
    verdict: Verdict,
    seen: Observations | GroupObservations,
    estimate: ChangeEstimate,
    decision: Decision,
) -> Verdict:
    gate, condition = verdict.gate, decision.condition
    assert condition is not None
    change = _shown(gate, estimate, condition)
    reversal = None
    compared = decision.interval is None and estimate.spread is not None
    if gate.over == "run" and compared and estimate.scale == "plain":
        assert estimate.spread is not None
        reversal = reversal_of(decision, estimate, estimate.spread.stderr)
    failed = decision.outcome is Outcome.FAILED
    notes = (*verdict.notes, *_change_notes(gate, estimate, decision, reversal))
    worse: tuple[str, ...] = ()
    if isinstance(seen, Observations) and gate.baseline:
        assert seen.reference is not None
        worse = _worse(gate, seen, estimate)
        if decision.outcome is not Outcome.PASSED:
            notes = (*notes, *seen.reference.notes)
    return replace(
        verdict,
        short=abs(change.difference - change.bar) if failed else 0.0,
        reason=_change_reason(gate, estimate, decision, change),
        change=change,
        documents=worse,
        notes=notes,
    )


def _worse(gate: Gate, seen: Observations, estimate: ChangeEstimate) -> tuple[str, ...]:
    """Ids of documents with a worse value than in the baseline."""
    assert gate.margin is not None
    assert estimate.pairs is not None
    ids, sign = seen.ids, gate.margin.sign
    return tuple(
        ids[position]
        for position, old, new in zip(*estimate.pairs[:3], strict=True)
        if isinstance(old, (int, float))
        and isinstance(new, (int, float))
        and sign * (new - old) < 0
    )


def _correct_short(
    conditions: Sequence[Condition], count: int, n: int, higher_is_better: bool | None
) -> int | None:
    """The number of further correct documents, of ``n``, with which all conditions
    would hold; ``None`` if missing.

    Args:
        conditions: On the share of documents with value 1; at least one does not hold.
        count: Documents with value 1.
        higher_is_better: Whether 1 is correct; ``None`` counts as true.
    """
    holding = counts_that_hold(conditions, n)
    if not holding:
        return None
    worse = higher_is_better is False
    short = count - holding[-1] if worse else holding[0] - count
    return short if short > 0 else None


def _number_reason(
    gate: Gate,
    metric: MetricResult,
    estimate: GateEstimate,
    decision: Decision,
    reversal: Reversal | None,
) -> str:
    """Reason of a gate that compares the number."""
    value = float(estimate.value)
    if decision.condition is None:
        return f"{metric.name} is present: {figure(value)}"
    failed = decision.outcome is Outcome.FAILED
    every = " and ".join(map(str, gate.bounds))
    text = figure_beside(value, Fraction(decision.condition.threshold))
    text += f" is not {decision.condition.text}" if failed else f" {every}"
    if estimate.count is not None:
        text += f" ({estimate.count} of {estimate.n})"
    text += _unscored(estimate)
    if gate.over == "benchmark":
        text += f"; {NO_NOISE}"
    if reversal is not None:
        text += f"; {_reversal_text(reversal, decision.outcome, figure)}"
    return text


def _reversal_text(
    reversal: Reversal, outcome: Outcome, show: Callable[[float], str]
) -> str:
    """Note on a threshold within the confidence interval."""
    low, high = reversal.interval.low, reversal.interval.high
    would = "pass" if outcome is Outcome.FAILED else "fail"
    text = (
        f"{WITHIN_NOISE}: 90% CI {show(low)} to {show(high)}; predicted to {would} on "
        f"{_percent(reversal.probability)} of new samples of this size"
    )
    if reversal.rerun is not None:
        text += f", and in {_percent(reversal.rerun)} of reruns"
    return text


def _percent(share: float) -> str:
    if 0 < share < 0.005:
        return "<1%"
    return f"{100 * share:.0f}%"


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
    """The inference target, and the method of the confidence limits."""
    if decision.interval is None:
        return f"over: {gate.over}"
    return (
        f"over: {gate.over}, {estimate.method}; {gate.ci}: both one-sided limits at "
        f"{_percent(gate.confidence)}"
    )


def _limits_reason(gate: Gate, estimate: GateEstimate, decision: Decision) -> str:
    """Reason of a gate that compares confidence limits."""
    condition, interval = decision.condition, decision.interval
    assert condition is not None
    assert interval is not None
    value = figure_beside(float(estimate.value), Fraction(condition.threshold))
    limits = _limits(gate, interval)
    counted = (
        f"{estimate.n} documents"
        if estimate.count is None
        else f"{estimate.count} of {estimate.n}"
    )
    text = {
        Outcome.PASSED: f"{value} {' and '.join(map(str, gate.bounds))}, {limits}",
        Outcome.FAILED: f"{value} is not {condition.text}, {limits}",
        Outcome.INCONCLUSIVE: f"{value}, {limits} contains {condition.edge}",
    }[decision.outcome]
    if estimate.n_labels:
        counted = f"{estimate.n_labels} human labels, {counted}"
    if estimate.n_whole:
        counted = _asked(estimate, gate.control)
    text += f" ({counted}){_unscored(estimate)}"
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
    return f"{n:,} documents asked, {known}"


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


def _limits(gate: Gate, interval: Interval, unit: Unit | None = None) -> str:
    """Both one-sided limits together: ``90% CI [0.7, 0.8]`` at a confidence of 0.95.
    ``unit``: the unit of a change; ``None`` for a number."""
    low, high = (
        figure(end) if unit is None else shown_change(end, unit)
        for end in (interval.low, interval.high)
    )
    return f"{gate.ci} [{low}, {high}]"


def shown_noise(metric: MetricResult | None) -> str:
    """The standard error of a number that no gate compares; the exact confidence
    interval of a proportion with few correct or few wrong answers, of which the
    standard error is too small."""
    if metric is None or metric.estimate is None:
        return ""
    count, n = metric.total, metric.n_scored
    if count is not None and min(count, n - count) < FEW:
        found = Proportion(count, n).interval(_CONFIDENCE)
        return f"{_CI} [{figure(found.low)}, {figure(found.high)}]"
    stderr = metric.estimate.stderr
    return "" if stderr is None else f"± {figure(stderr)}"


def _unscored(estimate: GateEstimate) -> str:
    if not estimate.n_missing:
        return ""
    parts = [
        f"{n} {word}"
        for n, word in (
            (estimate.n_errored, "errored"),
            (estimate.n_unscored, "unscored"),
        )
        if n
    ]
    s = "s" if estimate.n_missing > 1 else ""
    return f"; {' and '.join(parts)} document{s} cannot change the verdict"


def _to_decide(
    gate: Gate, estimate: GateEstimate, conditions: Sequence[Condition]
) -> str:
    n = _documents_to_decide(conditions, estimate, gate.confidence)
    units = "human labels" if estimate.n_labels else "documents"
    if n is None and estimate.n_labels and gate.over == "run":
        return f"; labels of all {estimate.n:,} documents decide it"
    if n is None:
        return f"; the value is too near the threshold for any number of {units}"
    return f"; about {n:,} {units} would decide it if the value stays the same"


def _documents_to_decide(
    conditions: Sequence[Condition], estimate: GateEstimate, confidence: float
) -> int | None:
    """The smallest number of documents with which the gate would be decided, if the
    value and its variance stay the same; more than there are now."""
    spread, n = estimate.spread, estimate.n_labels or estimate.n
    assert spread is not None

    value, alpha = estimate.value, 1 - confidence
    holds = all(condition.holds(value) for condition in conditions)

    def is_decided(more: int) -> bool:
        # P-values are much cheaper than limits, and agree with them.
        scaled = replace(estimate, spread=spread.scaled(more / n))
        if holds:
            return p_passes(conditions, scaled) <= alpha
        p_value = p_fails(conditions, scaled)
        return p_value is not None and p_value < alpha

    z = _NORMAL.inv_cdf(confidence)
    away = min(condition.distance(value) for condition in conditions)
    guess = n * (z * spread.stderr / away) ** 2 if away else math.inf
    most = estimate.n if estimate.n_labels else MOST_TIMES * n
    return first_that(is_decided, n + 1, most, int(min(guess, most)))


def _change_reason(
    gate: Gate, estimate: ChangeEstimate, decision: Decision, change: ShownChange
) -> str:
    """Reason of a gate on a change since a baseline."""
    threshold = shown_bar(change)
    text, interval = change_text(change), decision.interval
    limits = "" if interval is None else _limits(gate, interval, change.unit)
    counted = f"{change.n} documents"
    if estimate.n_whole:
        counted = _asked(estimate, gate.baseline)
    if change.gained is not None:
        counted += f", {change.gained} gained / {change.lost} lost"
    comma = f", {limits}" if limits else ""
    text += {
        Outcome.PASSED: f" {threshold}{comma}",
        Outcome.FAILED: f" is not {threshold}{comma}",
        Outcome.INCONCLUSIVE: f", {limits} contains "
        f"{shown_change(change.bar, change.unit)}{suffix(change.unit)}",
    }[decision.outcome]
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


def _change_notes(
    gate: Gate, estimate: ChangeEstimate, decision: Decision, reversal: Reversal | None
) -> Iterator[str]:
    """Notes on a comparison in addition to its reason."""
    if gate.over == "run":
        if reversal is not None:

            def show(number: float) -> str:
                return shown_change(number, estimate.unit)

            yield _reversal_text(reversal, decision.outcome, show)
    elif gate.over == "population":
        yield from _weakness(gate, estimate, decision)
        yield from _real_change(gate, estimate, decision)


def _weakness(
    gate: Gate, estimate: ChangeEstimate, decision: Decision
) -> Iterator[str]:
    """The power to prove that an unchanged model is not worse, if it is low."""
    assert estimate.spread is not None
    assert decision.condition is not None
    stderr, edge = estimate.spread.stderr, float(decision.condition.threshold)
    is_log = estimate.scale == "log1p"
    margin = abs(math.log1p(edge)) if is_log and edge > -1 else abs(edge)
    is_lower = decision.condition.is_lower
    least = _least(gate, estimate, margin, is_lower=is_lower)
    if decision.outcome is Outcome.INCONCLUSIVE and least > estimate.n:
        width = 0.0 if estimate.shares is not None else -estimate.range[0]
        offer = offer_of_assumption(gate, margin, width)
        yield (
            f"{LOW_POWER}: a model that changes no answer passes only from {least:,} "
            f"documents on, not with {estimate.n:,}{offer}"
        )
        return
    if decision.outcome is Outcome.FAILED or stderr <= 0 or not 0 < margin < math.inf:
        return
    z = _NORMAL.inv_cdf(gate.confidence)
    power = _NORMAL.cdf(margin / stderr - z)
    if power >= (POWER if decision.outcome is Outcome.INCONCLUSIVE else WEAK):
        return
    detected = (z + _NORMAL.inv_cdf(POWER)) * stderr
    more = _with_answers(gate, estimate, decision, margin)
    n = math.ceil(estimate.n * (detected / margin) ** 2)
    assert gate.margin is not None
    key = "margin" if gate.margin.key == "recovery" else gate.margin.key
    way = "drop" if decision.condition.is_lower else "rise"
    yield (
        f"{LOW_POWER}: {estimate.n:,} documents detect a {way} of "
        f"{_size(margin, estimate)} in {_percent(power)} of runs; {n:,} would in "
        f"{_percent(POWER)}, if they vary as these do, or set {key} to "
        f"{_size(detected, estimate)}{more}"
    )


def _with_answers(
    gate: Gate, estimate: ChangeEstimate, decision: Decision, margin: float
) -> str:
    """Recommends several answers to each document, if answers flip both ways as they do
    by chance and documents are enough; else empty."""
    shares, z = estimate.shares, _NORMAL.inv_cdf(gate.confidence)
    if shares is None or gate.reducer or not min(shares.gained, shares.lost):
        return ""
    if documents_for(1 - gate.confidence, margin) > estimate.n:
        return ""
    power = _NORMAL.cdf(margin / (shares.stderr / math.sqrt(_ANSWERS)) - z)
    return (
        f"; if answers are sampled and flip by chance, {_ANSWERS} answers to each "
        f"document in both runs (repeats: {_ANSWERS}, reducer: mean) give up to "
        f"{_percent(power)}"
    )


def _least(
    gate: Gate, estimate: ChangeEstimate, margin: float, *, is_lower: bool
) -> int:
    """The smallest number of documents with which a model that changes no answer
    passes; 0 if unknown."""
    width = -estimate.range[0] if is_lower else estimate.range[1]
    if not 0 < margin < width < math.inf:
        return 0
    if not isinstance(estimate.spread, PairedProportions):
        return documents_for(1 - gate.confidence, margin / width)
    z = _NORMAL.inv_cdf(gate.confidence)
    return math.ceil(z * z * (1 - margin) / margin)  # Tango's limit without flips


def _size(least: float, estimate: ChangeEstimate) -> str:
    if estimate.unit == "percent":
        return f"{100 * math.expm1(least):.2g}%"
    if estimate.unit == "points":
        return f"{100 * least:.2g}{suffix(estimate.unit)}"
    return figure(least)


def _real_change(
    gate: Gate, estimate: ChangeEstimate, decision: Decision
) -> Iterator[str]:
    condition, interval = decision.condition, decision.interval
    if condition is None or interval is None or decision.outcome is Outcome.FAILED:
        return
    if interval.high < 0 if condition.is_lower else interval.low > 0:
        word = "drop" if condition.is_lower else "rise"
        is_allowed = decision.outcome is Outcome.PASSED
        allowed = ", within the margin" if is_allowed else ""
        yield f"a significant {word}{allowed}"
