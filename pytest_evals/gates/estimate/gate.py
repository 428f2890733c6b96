"""The estimate of a gate: by its keys, of a task's value or of its change; the same of
the tasks of a group, combined."""

from __future__ import annotations

from dataclasses import replace

from pytest_evals.core.gate import Gate
from pytest_evals.core.metric import MetricResult
from pytest_evals.core.reference import Find
from pytest_evals.core.result import GroupResult, TaskResult
from pytest_evals.gates.documents import InvalidGateError
from pytest_evals.gates.estimate.change import estimate_change
from pytest_evals.gates.estimate.estimate import (
    NEGLIGIBLE,
    ChangeEstimate,
    GateEstimate,
)
from pytest_evals.gates.estimate.external_reference import (
    estimate_published,
    protocol_fault,
)
from pytest_evals.gates.estimate.group import combined, members_of
from pytest_evals.gates.estimate.sampled_run import estimate_whole, sampled_run
from pytest_evals.gates.estimate.value import (
    estimate_point,
    estimate_value,
    has_limits,
)
from pytest_evals.stats.interval_methods import ExactValue


def estimate_gate(
    gate: Gate, metric: MetricResult, result: TaskResult | GroupResult, find: Find
) -> GateEstimate:
    """The estimate of a gate on one metric.

    Args:
        metric: The metric, reduced if the gate has a reducer.

    Raises:
        InvalidGateError: The runs cannot be compared, or the variance is unknown.
    """
    if isinstance(result, GroupResult):
        estimate = _of_group(gate, metric, result, find)
    else:
        whole = _of_whole(gate, metric, result, find)
        estimate = whole or estimate_member(gate, metric, result, find)
    if gate.published is None:
        return estimate
    if isinstance(result, TaskResult) and (fault := protocol_fault(gate, result)):
        raise InvalidGateError(f"not comparable with the reference: {fault}")
    return estimate_published(gate, metric, estimate)


def estimate_member(
    gate: Gate, metric: MetricResult, task: TaskResult, find: Find
) -> GateEstimate:
    """The value or the change of a task, alone or in a group."""
    if not gate.baseline:
        return estimate_value(gate, metric, task)
    reference = find(gate.baseline, task.task.name)
    change = estimate_change(gate, metric, task, reference)
    if has_limits(gate):
        _check_varies(gate, change)
    return change


def _check_varies(gate: Gate, estimate: ChangeEstimate) -> None:
    """Check that the documents have not all changed by the same amount.

    Raises:
        InvalidGateError: They have, so the variance of the change is unknown.
    """
    spread = estimate.spread
    if isinstance(spread, ExactValue) and abs(spread.value) > NEGLIGIBLE:
        raise InvalidGateError(
            f"{gate.metric} has changed by the same in all {estimate.n} documents, so "
            "its variance is unknown; over: run compares the number"
        )


def _of_group(
    gate: Gate, metric: MetricResult, result: GroupResult, find: Find
) -> GateEstimate:
    by_task = has_limits(gate) or gate.baseline or gate.reducer
    is_mean = any(rule.metric == gate.metric for rule in result.group.aggregates)
    if not by_task and not (is_mean and metric.n_lost):
        return estimate_point(metric)
    members = members_of(gate, metric, result)
    estimates = []
    for member in members:
        try:
            one = estimate_member(gate, member.metric, member.task, find)
        except InvalidGateError as error:
            raise error.of_task(member.name) from error
        estimates.append(one)
    whole = replace(
        combined(gate, members, estimates),
        n_errored=metric.n_errored,
        n_unscored=metric.n_unscored,
    )
    if isinstance(whole, ChangeEstimate):
        return whole
    return replace(whole, n=metric.n_scored, count=metric.total)


def _of_whole(
    gate: Gate, metric: MetricResult, result: TaskResult, find: Find
) -> GateEstimate | None:
    """The whole benchmark's value from a sampled run, if a complete baseline is
    known."""
    if not gate.control or gate.over != "run" or gate.published is not None:
        return None
    if metric.how is not None and metric.how.labels is not None:
        return None
    sampled = sampled_run(gate, metric, result, find(gate.control, gate.task))
    return None if sampled is None else estimate_whole(sampled)
