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
from pytest_evals.core.metric import Estimate, MetricResult
from pytest_evals.core.reference import Find, Reference, no_reference
from pytest_evals.core.result import GroupResult, TaskResult
from pytest_evals.errors import suggestion, unknown_name
from pytest_evals.gates.check import direction_fault, labels_fault
from pytest_evals.gates.decide import (
    Condition,
    Decision,
    check_varies,
    conditions_of,
    correct_short,
    decide,
    distance,
    is_stable,
)
from pytest_evals.gates.documents import (
    InvalidGateError,
    all_tied,
    reduced_group,
    reduced_result,
    with_range,
)
from pytest_evals.gates.estimate.change import estimate_change
from pytest_evals.gates.estimate.estimate import ChangeEstimate, GateEstimate
from pytest_evals.gates.estimate.external_reference import (
    estimate_published,
    protocol_fault,
)
from pytest_evals.gates.estimate.group import (
    estimate_group,
    estimate_group_change,
    members_of,
)
from pytest_evals.gates.estimate.human_labels import corrected_metric
from pytest_evals.gates.estimate.pairs import Pairs
from pytest_evals.gates.estimate.sampled_run import estimate_whole, sampled_run
from pytest_evals.gates.estimate.two_run_metrics import estimate_two_runs
from pytest_evals.gates.estimate.value import estimate_point, estimate_value, has_limits
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
from pytest_evals.gates.reversal import (
    Reversal,
    reversal_of_proportion,
    reversal_of_value,
)
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
    if isinstance(result, GroupResult):
        return _of_group(gate, metric, result, find)
    if gate.reducer:
        result = reduced_result(gate, metric, result)
        metric = next(one for one in result.metrics if one.key == metric.key)
    if not gate.baseline:
        whole = _of_whole(gate, metric, result, find)
        if whole is not None:
            return whole
        estimate = estimate_value(gate, metric, result)
        if gate.published is None:
            return _verdict(gate, corrected_metric(metric, estimate), estimate)
        if fault := protocol_fault(gate, result):
            raise InvalidGateError(f"not comparable with the reference: {fault}")
        change = estimate_published(gate, metric, estimate)
        return _change_verdict(gate, metric, change, "reference")
    reference = find(gate.baseline, gate.task)
    change, pairs = estimate_change(gate, metric, result, reference)
    verdict = _change_verdict(gate, metric, change)
    return _with_reference(verdict, result, pairs, reference)


def _of_whole(
    gate: Gate, metric: MetricResult, result: TaskResult, find: Find
) -> Verdict | None:
    """The verdict of a sampled run on the whole benchmark, if a complete baseline is
    known."""
    if not gate.control or gate.over != "run" or gate.published is not None:
        return None
    if metric.how is not None and metric.how.labels is not None:
        return None
    reference = find(gate.control, gate.task)
    sampled = sampled_run(gate, metric, result, reference)
    if sampled is None:
        return None
    estimate = estimate_whole(sampled)
    assert estimate.spread is not None
    number = Estimate(float(estimate.value), estimate.spread.stderr)
    return _verdict(gate, replace(metric, estimate=number, total=None), estimate)


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
        estimate, metric = estimate_two_runs(gate, result, reference)
        return replace(_verdict(gate, metric, estimate), notes=estimate.notes)
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


def _of_group(
    gate: Gate, metric: MetricResult, result: GroupResult, find: Find
) -> Verdict:
    by_task = has_limits(gate) or gate.baseline or gate.reducer
    if not by_task and not _can_be_bounded(gate, metric, result):
        return _verdict(gate, metric, estimate_point(metric))
    if gate.reducer:
        result = reduced_group(gate, metric, result)
    members = members_of(gate, metric, result)
    if not gate.baseline:
        estimate = estimate_group(gate, metric, members)
        if gate.published is not None:
            change = estimate_published(gate, metric, estimate)
            return _change_verdict(gate, metric, change, "reference")
        estimated = replace(
            metric,
            estimate=metric.estimate
            and replace(metric.estimate, value=float(estimate.value)),
        )
        return _verdict(gate, estimated, estimate)
    group_change, changes = estimate_group_change(gate, metric, members, find)
    if gate.over == "population":
        for member, one in zip(members, changes, strict=True):
            try:
                check_varies(gate, one)
            except InvalidGateError as error:
                raise error.of_task(member.name) from error
    return _change_verdict(gate, metric, group_change)


def _can_be_bounded(gate: Gate, metric: MetricResult, result: GroupResult) -> bool:
    """Whether documents without a score in its tasks bound the group's metrics."""
    is_aggregated = any(rule.metric == gate.metric for rule in result.group.aggregates)
    n_missing = metric.n_errored + metric.n_unscored
    return is_aggregated and n_missing > 0 and estimate_point(metric).count is None


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
    gate: Gate, estimate: GateEstimate
) -> tuple[list[Condition], Decision, float | None]:
    """The decision, if documents without a score cannot change it."""
    conditions = conditions_of(gate, estimate)
    confidence = _confidence(gate, estimate)
    decision = decide(conditions, estimate, confidence)
    if not is_stable(gate, estimate, decision.outcome, confidence):
        raise InvalidGateError(missing_decide(conditions, estimate))
    return conditions, decision, confidence


def _verdict(gate: Gate, metric: MetricResult, estimate: GateEstimate) -> Verdict:
    conditions, decision, confidence = _decided(gate, estimate)
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
    stderr = metric.estimate.stderr if metric.estimate else None
    if not conditions:
        return None
    if estimate.is_share and estimate.count is not None:
        return reversal_of_proportion(
            conditions, estimate.count, estimate.n, decision.outcome, gate.flip_rate
        )
    rerun = None
    if gate.flip_rate is not None and gate.measured:
        rerun = math.sqrt(gate.flip_rate / (2 * estimate.n))
    limits = metric.how.known_limits if metric.how and metric.how.is_mean else None
    return reversal_of_value(
        conditions,
        float(estimate.value),
        stderr or 0.0,
        decision.outcome,
        limits or (-math.inf, math.inf),
        rerun,
    )


def _change_verdict(
    gate: Gate, metric: MetricResult, estimate: ChangeEstimate, name: str = ""
) -> Verdict:
    """The verdict of a gate on a change. ``name``: name of the reference, if it is
    not the gate's baseline."""
    if has_limits(gate):
        check_varies(gate, estimate)
    (condition,), decision, _ = _decided(gate, estimate)
    change = shown(gate, estimate, condition, name or gate.baseline)
    reversal = None
    compared = decision.interval is None and estimate.spread is not None
    if gate.over == "run" and compared and estimate.scale == "plain":
        assert estimate.spread is not None
        reversal = reversal_of_value(
            [condition],
            float(estimate.value),
            estimate.spread.stderr,
            decision.outcome,
            estimate.range,
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
    verdict: Verdict, result: TaskResult, pairs: Pairs, reference: Reference
) -> Verdict:
    """The verdict with the ids of documents that became worse, and other differences
    between the two runs."""
    notes = verdict.notes
    if verdict.outcome is not Outcome.PASSED:
        notes += reference.notes
    margin = verdict.gate.margin
    worse = () if margin is None else _worse(margin, result, pairs)
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
