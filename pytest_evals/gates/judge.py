"""Judge a gate in four steps: read, estimate, decide, explain.

Reading is :mod:`pytest_evals.gates.read`. One verdict determines exit code, terminal
and files. It passes only if every document of the gate was run and the documents
without a score cannot change it: an error never counts as a wrong answer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from pytest_evals.core.gate import Gate, Margin, Outcome, Policy, Verdict
from pytest_evals.core.metric import MetricResult
from pytest_evals.core.reference import Find, no_reference
from pytest_evals.core.result import GroupResult, TaskResult
from pytest_evals.errors import suggestion, unknown_name
from pytest_evals.gates.check import direction_fault, labels_fault
from pytest_evals.gates.decide import (
    Condition,
    Decision,
    conditions_of,
    correct_short,
    decide,
    distance,
    is_stable,
)
from pytest_evals.gates.documents import (
    InvalidGateError,
    all_tied,
    reduced_result,
    with_range,
)
from pytest_evals.gates.estimate.estimate import Bracket, ChangeEstimate, GateEstimate
from pytest_evals.gates.estimate.gate import estimate_gate
from pytest_evals.gates.estimate.pairs import Pairs, pairs_of
from pytest_evals.gates.estimate.two_run_metrics import estimate_two_runs
from pytest_evals.gates.estimate.value import has_limits
from pytest_evals.gates.explain import (
    change_notes,
    change_reason,
    conclusion,
    limits_reason,
    method_of,
    missing_decide,
    number_reason,
    shown,
    skipped_reason,
)
from pytest_evals.gates.formatting import figure, missing_count
from pytest_evals.gates.must_pass import judge_documents
from pytest_evals.gates.overlap import shared_documents
from pytest_evals.gates.reversal import Reversal, reversal_of
from pytest_evals.gates.run_metrics import RUN_METRICS, with_documents, with_run_metric


def judge(
    gate: Gate,
    result: TaskResult | GroupResult,
    policy: Policy = "warn",
    find: Find = no_reference,
) -> Verdict:
    """The verdict of a gate on a task or a group.

    Args:
        policy: The meaning of an inconclusive verdict, if the gate does not set one.
        find: Finds a task in a baseline.

    Returns:
        Skipped if documents were not run; invalid if documents without a score can
        change the outcome, or if there is no number.
    """
    verdict = _judged(gate, result, find)
    return replace(verdict, policy=gate.inconclusive or policy)


def _judged(gate: Gate, result: TaskResult | GroupResult, find: Find) -> Verdict:
    if gate.is_about_documents:
        assert isinstance(result, TaskResult)  # dialects reject it for groups
        return judge_documents(gate, result)
    if gate.baseline and gate.margin is None:
        return _of_two_runs(gate, result, find)
    counted = with_run_metric(gate, result) if gate.metric in RUN_METRICS else None
    if counted is not None:
        return with_documents(_of_metric(gate, counted, find), counted)
    return _of_metric(gate, result, find)


def _of_metric(gate: Gate, result: TaskResult | GroupResult, find: Find) -> Verdict:
    try:
        result = with_range(gate, result)
    except InvalidGateError as error:
        return Verdict(gate=gate, outcome=error.outcome, reason=error.reason)
    metric = _find_metric(gate, result.metrics)
    if isinstance(metric, str) and not result.n_missing:
        return Verdict(gate=gate, outcome=Outcome.INVALID, reason=metric)
    if isinstance(metric, str) or metric.n_missing:
        known_metric = None if isinstance(metric, str) else metric
        reason = skipped_reason(known_metric, result)
        return Verdict(
            gate=gate, outcome=Outcome.SKIPPED, metric=known_metric, reason=reason
        )
    try:
        return _of_number(gate, metric, result, find)
    except InvalidGateError as error:
        return Verdict(
            gate=gate, outcome=error.outcome, metric=metric, reason=error.reason
        )


def _find_metric(gate: Gate, metrics: Sequence[MetricResult]) -> MetricResult | str:
    """The gate's metric, or why it is missing."""
    named = [metric for metric in metrics if metric.name == gate.metric]
    if not named:
        names = sorted({metric.name for metric in metrics})
        return unknown_name("metric", gate.metric, names)
    filters = [metric.filter for metric in named]
    if gate.filter:
        matching = [metric for metric in named if metric.filter == gate.filter]
        if matching:
            return matching[0]
        hint = suggestion(gate.filter, filters)
        return f"unknown filter {gate.filter!r} of {gate.metric!r}{hint}"
    if len(named) > 1:
        choices = ", ".join(repr(metric.key) for metric in named)
        return f"{gate.metric!r} has {len(named)} filters: name one of {choices}"
    return named[0]


def _of_number(
    gate: Gate, metric: MetricResult, result: TaskResult | GroupResult, find: Find
) -> Verdict:
    """The verdict over all documents."""
    _check_number(metric)
    if why := all_tied(metric, result):
        raise InvalidGateError(why)
    _check_coverage(gate, metric)
    if gate.margin is not None:
        _check_direction(gate, metric)
    notes: tuple[str, ...] = ()
    if gate.baseline:
        result, notes = shared_documents(gate, result, find)
        metric = next(one for one in result.metrics if one.key == metric.key)
    if gate.reducer:
        result = reduced_result(gate, metric, result)
        reduced_metrics = (one for one in result.metrics if one.key == metric.key)
        metric = next(reduced_metrics, metric)
    estimate = estimate_gate(gate, metric, result, find)
    bracket: Bracket = ()
    if estimate.n_missing and conditions_of(gate, estimate):
        from pytest_evals.gates.estimate.missing import bracket_of

        bracket = bracket_of(gate, metric, result, estimate, find)
    if isinstance(estimate, ChangeEstimate):
        verdict = _change_verdict(gate, metric, estimate, bracket)
        verdict = _with_reference(verdict, result, find)
        return replace(verdict, notes=(*notes, *verdict.notes))
    is_group = isinstance(result, GroupResult)
    return _verdict(gate, _shown(metric, estimate, is_group), estimate, bracket)


def _shown(
    metric: MetricResult, estimate: GateEstimate, is_group: bool
) -> MetricResult:
    """The metric with the value that the gate judges, if that is another one."""
    number = metric.estimate
    if number is None or not (is_group or estimate.n_labels or estimate.n_whole):
        return metric
    changed = replace(number, value=float(estimate.value))
    if is_group:
        return replace(metric, estimate=changed)
    assert estimate.spread is not None
    changed = replace(changed, stderr=estimate.spread.stderr)
    return replace(metric, estimate=changed, total=None)


def _of_two_runs(gate: Gate, result: TaskResult | GroupResult, find: Find) -> Verdict:
    """The verdict on agreement, flips or divergence of two runs."""
    if isinstance(result, GroupResult):
        reason = f"{gate.metric} is a number of a task, not of a group"
        return Verdict(gate=gate, outcome=Outcome.INVALID, reason=reason)
    if result.n_missing:
        reason = skipped_reason(None, result)
        return Verdict(gate=gate, outcome=Outcome.SKIPPED, reason=reason)
    reference = find(gate.baseline, gate.task)
    try:
        shared, notes = shared_documents(gate, result, find)
        assert isinstance(shared, TaskResult)
        estimate, metric, bracket = estimate_two_runs(gate, shared, reference)
        verdict = _verdict(gate, metric, estimate, bracket)
        return replace(verdict, notes=(*notes, *estimate.notes))
    except InvalidGateError as error:
        return Verdict(gate=gate, outcome=error.outcome, reason=error.reason)


def _check_number(metric: MetricResult) -> None:
    if not metric.n_scored:
        counts = missing_count(metric.n_errored, metric.n_unscored)
        raise InvalidGateError(f"no document has a score{counts}")
    if metric.estimate is None:
        raise InvalidGateError(metric.error or "the metric has no value")
    value, ends = metric.estimate.value, metric.estimate.range
    if not math.isfinite(value):
        raise InvalidGateError(f"the value is {value}, not a finite number")
    if ends is not None and not ends[0] <= value <= ends[1]:
        what = f"the value {figure(value)} is outside of its range [{ends[0]:g}, "
        raise InvalidGateError(f"{what}{ends[1]:g}]")


def _check_coverage(gate: Gate, metric: MetricResult) -> None:
    if not metric.n_absent or gate.allows_missing:
        return
    n = metric.n_scored + metric.n_unscored + metric.n_errored + metric.n_absent
    have = "has" if metric.n_absent == 1 else "have"
    raise InvalidGateError(
        f"{metric.n_absent} of {n} documents {have} no {metric.name}, although they "
        "were scored: return it for every document, or set missing: allowed"
    )


def _check_direction(gate: Gate, metric: MetricResult) -> None:
    labelled = metric.how is not None and metric.how.labels is not None
    fault = direction_fault(gate, metric.higher_is_better)
    fault = fault or (labels_fault(gate) if labelled else "")
    if fault:
        raise InvalidGateError(fault)


def _confidence(gate: Gate, estimate: GateEstimate) -> float | None:
    """``None`` if the gate compares the number."""
    if estimate.n_whole:
        return gate.confidence
    if estimate.spread is None or (gate.over == "run" and not estimate.n_labels):
        return None
    if isinstance(estimate, ChangeEstimate) and not has_limits(gate):
        return None
    return gate.confidence


def _decided(
    gate: Gate, estimate: GateEstimate, bracket: Bracket
) -> tuple[list[Condition], Decision, float | None]:
    """The decision, if documents without a score cannot change it."""
    conditions = conditions_of(gate, estimate)
    confidence = _confidence(gate, estimate)
    decision = decide(conditions, estimate, confidence)
    is_open = bool(conditions) and estimate.n_missing > 0
    if is_open and not is_stable(gate, estimate, bracket, decision.outcome, confidence):
        raise InvalidGateError(missing_decide(conditions, estimate, bracket))
    return conditions, decision, confidence


def _verdict(
    gate: Gate, metric: MetricResult, estimate: GateEstimate, bracket: Bracket
) -> Verdict:
    conditions, decision, confidence = _decided(gate, estimate, bracket)
    failed = decision.outcome is Outcome.FAILED
    if confidence is None:
        reversal = _reversal(gate, metric, estimate, conditions, decision)
        reason = number_reason(gate, metric, estimate, decision, reversal)
    else:
        reason = limits_reason(gate, metric, estimate, decision, conditions)
    n_short = None
    if failed and confidence is None and estimate.count is not None:
        n = estimate.n + estimate.n_missing
        better = metric.higher_is_better
        n_short = correct_short(conditions, estimate.count, n, better)
    condition = decision.condition
    return Verdict(
        gate=gate,
        outcome=decision.outcome,
        metric=metric,
        short=distance(condition, estimate.value) if failed and condition else 0.0,
        n_short=n_short,
        conclusion=conclusion(gate, estimate, decision),
        reason=reason,
        method=method_of(gate, estimate, decision),
        interval=decision.interval,
        p_fails=decision.p_fails,
        p_passes=decision.p_passes,
        notes=estimate.notes if confidence is not None else (),
    )


def _reversal(
    gate: Gate,
    metric: MetricResult,
    estimate: GateEstimate,
    conditions: Sequence[Condition],
    decision: Decision,
) -> Reversal | None:
    if not conditions:
        return None
    stderr = (metric.estimate.stderr if metric.estimate else None) or 0.0
    rerun = None
    if gate.flip_rate is not None and (estimate.is_share or gate.measured):
        rerun = math.sqrt(gate.flip_rate / (2 * estimate.n))
    return reversal_of(conditions, estimate, decision.outcome, stderr, rerun)


def _change_verdict(
    gate: Gate, metric: MetricResult, estimate: ChangeEstimate, bracket: Bracket
) -> Verdict:
    """The verdict of a gate on a change."""
    (condition,), decision, _ = _decided(gate, estimate, bracket)
    change = shown(gate, estimate, condition, gate.baseline or "reference")
    reversal = None
    compared = decision.interval is None and estimate.spread is not None
    if gate.over == "run" and compared and estimate.scale == "plain":
        assert estimate.spread is not None
        reversal = reversal_of(
            [condition], estimate, decision.outcome, estimate.spread.stderr
        )
    about = estimate.notes if decision.interval else ()
    failed = decision.outcome is Outcome.FAILED
    return Verdict(
        gate=gate,
        outcome=decision.outcome,
        metric=metric,
        short=abs(change.difference - change.bar) if failed else 0.0,
        conclusion=conclusion(gate, estimate, decision),
        reason=change_reason(gate, estimate, decision, change),
        method=method_of(gate, estimate, decision),
        interval=decision.interval,
        change=change,
        p_fails=decision.p_fails,
        p_passes=decision.p_passes,
        notes=(*about, *change_notes(gate, estimate, decision, reversal)),
    )


def _with_reference(
    verdict: Verdict, result: TaskResult | GroupResult, find: Find
) -> Verdict:
    """The verdict with the ids of documents that became worse, and other differences
    between the two runs."""
    gate, metric = verdict.gate, verdict.metric
    if not gate.baseline or isinstance(result, GroupResult):
        return verdict
    assert gate.margin is not None
    assert metric is not None
    reference, notes = find(gate.baseline, gate.task), verdict.notes
    pairs = pairs_of(gate, metric, result, reference)
    if verdict.outcome is not Outcome.PASSED:
        notes += reference.notes
    worse = _worse(gate.margin, result, pairs)
    return replace(verdict, documents=worse, notes=notes)


def _worse(margin: Margin, result: TaskResult, pairs: Pairs) -> tuple[str, ...]:
    """Ids of documents with a worse value than in the baseline."""
    ids = {record.index: record.doc.id for record in result.records}
    return tuple(
        ids[position]
        for position, old, new in zip(*pairs[:3], strict=True)
        if isinstance(old, (int, float))
        and isinstance(new, (int, float))
        and margin.sign * (new - old) < 0
    )
