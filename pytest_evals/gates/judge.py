"""Judge a gate in four steps: read its documents, estimate, decide, explain.

One verdict determines exit code, terminal and files. It passes only if every document
of the gate was run and the documents without a score cannot change it: an error never
counts as a wrong answer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from pytest_evals.core.gate import Gate, Outcome, Policy, Verdict
from pytest_evals.core.metric import MetricResult
from pytest_evals.core.reference import Find, no_reference
from pytest_evals.core.result import AnyResult, GroupResult, TaskResult
from pytest_evals.errors import plural, suggestion, unknown_name
from pytest_evals.gates.check import direction_fault, labels_fault
from pytest_evals.gates.decide import decide
from pytest_evals.gates.estimate.gate import estimate_gate
from pytest_evals.gates.explain import explained, skipped_reason
from pytest_evals.gates.must_pass import judge_documents
from pytest_evals.gates.observations import GateDocuments, observe
from pytest_evals.gates.run_metrics import RUN_METRICS, with_documents, with_run_metric
from pytest_evals.gates.terms import InvalidGateError, figure, missing_count


def judge(
    gate: Gate, result: AnyResult, policy: Policy = "warn", find: Find = no_reference
) -> Verdict:
    """The verdict of a gate on a task or a group.

    Args:
        policy: The meaning of an inconclusive verdict, if the gate does not set one.
        find: Finds a task in a baseline.

    Returns:
        Skipped if documents were not run; invalid if documents without a score can
        change the outcome, or if there is no number.
    """
    counted = with_run_metric(gate, result) if gate.metric in RUN_METRICS else None
    if gate.is_about_documents:
        assert isinstance(result, TaskResult)  # dialects reject it for groups
        verdict = judge_documents(gate, result)
    elif gate.baseline and gate.margin is None:
        verdict = _of_two_runs(gate, result, find)
    elif counted is not None:
        verdict = with_documents(_of_metric(gate, counted, find), counted)
    else:
        verdict = _of_metric(gate, result, find)
    return replace(verdict, policy=gate.inconclusive or policy)


def judge_observations(
    gate: Gate, seen: GateDocuments, notes: Sequence[str] = ()
) -> Verdict:
    """The verdict over documents whose values are known. ``notes``: remarks on them."""
    estimate, bracket = estimate_gate(gate, seen)
    decision = decide(gate, estimate, bracket)
    verdict = explained(gate, seen, estimate, decision)
    return replace(verdict, notes=(*notes, *verdict.notes))


def _of_metric(gate: Gate, result: AnyResult, find: Find) -> Verdict:
    metric = _find_metric(gate, result.metrics)
    known = None if isinstance(metric, str) else metric
    try:
        if result.n_missing if known is None else known.n_missing:
            raise InvalidGateError(skipped_reason(known, result), Outcome.SKIPPED)
        if isinstance(metric, str):
            raise InvalidGateError(metric)
        _check_number(metric)
        if why := all_tied(metric, result):
            raise InvalidGateError(why)
        _check_keys(gate, metric)
        return judge_observations(gate, *observe(gate, metric, result, find))
    except InvalidGateError as error:
        return error.verdict(gate, known)


def _of_two_runs(gate: Gate, result: AnyResult, find: Find) -> Verdict:
    from pytest_evals.gates.two_run_metrics import observe_two_runs

    try:
        if isinstance(result, GroupResult):
            raise InvalidGateError(
                f"{gate.metric} is a number of a task, not of a group"
            )
        if result.n_missing:
            raise InvalidGateError(skipped_reason(None, result), Outcome.SKIPPED)
        return judge_observations(gate, *observe_two_runs(gate, result, find))
    except InvalidGateError as error:
        return error.verdict(gate)


def _find_metric(gate: Gate, metrics: Sequence[MetricResult]) -> MetricResult | str:
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
        message = f"the value {figure(value)} is outside of its range [{ends[0]:g}, "
        raise InvalidGateError(f"{message}{ends[1]:g}]")


def _check_keys(gate: Gate, metric: MetricResult) -> None:
    if metric.n_absent and not gate.allows_missing:
        n = metric.n_scored + metric.n_lost + metric.n_absent
        have = "has" if metric.n_absent == 1 else "have"
        raise InvalidGateError(
            f"{metric.n_absent} of {plural(n, 'document')} {have} no {metric.name}, "
            "although they were scored: return it for every document, or set missing: "
            "allowed"
        )
    if gate.margin is not None:
        fault = direction_fault(gate, metric.higher_is_better)
        if fault := fault or (labels_fault(gate) if metric.labels else ""):
            raise InvalidGateError(fault)


def all_tied(metric: MetricResult, result: AnyResult) -> str:
    """Why a metric of selected choices says nothing: no document has a unique best one;
    empty if one has."""
    name, filter_, n = metric.name, metric.filter, 0
    for task in result.members if isinstance(result, GroupResult) else [result]:
        for record in task.records:
            if record.error or record.excluded:
                continue
            for score in record.scores:
                is_own = score.metric == name and score.filter == filter_
                if is_own and not score.unscored:
                    if not score.is_tied:
                        return ""
                    n += 1
    if not n:
        return ""
    documents = "the only document" if n == 1 else f"all {n:,} documents"
    return (
        f"in {documents} several choices are equally likely, so that the first of them "
        "was selected: the log-probabilities of the model say nothing"
    )
