"""The tasks of a group and how much each of them counts in a gate's number."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from pytest_evals.core.gate import Gate
from pytest_evals.core.metric import MetricResult
from pytest_evals.core.result import GroupResult, TaskResult
from pytest_evals.errors import did_you_mean
from pytest_evals.gates.unsound import UnsoundError

__all__ = ["Member", "members_of", "weights_fault"]


class Member(NamedTuple):
    """A task of a group.

    Args:
        task: Its result.
        metric: The metric that the gate is about.
        weight: Its share of the group's number; all add up to 1.
    """

    task: TaskResult
    metric: MetricResult
    weight: Fraction

    @property
    def name(self) -> str:
        """The task's name."""
        return self.task.task.name

    @property
    def share_lacking(self) -> Fraction:
        """The share of its documents that have no score."""
        n_lacking = self.metric.n_errored + self.metric.n_unscored
        return Fraction(n_lacking, self.metric.n_scored + n_lacking)


def members_of(gate: Gate, metric: MetricResult, result: GroupResult) -> list[Member]:
    """The tasks that have the metric, each once.

    A task that the group reaches on several ways counts as many times.

    Raises:
        UnsoundError: The gate's weights do not fit the tasks.
    """
    found = [
        (task, one)
        for task in result.tasks
        for one in task.metrics
        if one.key == metric.key and one.n_scored
    ]
    by_name = isinstance(gate.weights, tuple)
    fault = weights_fault(gate, [task.task.name for task, _ in found])
    if fault:
        raise UnsoundError(fault)
    members: dict[str, Member] = {}
    for task, one in found:
        weight = _weight(gate, result, task)
        known = members.get(task.task.name)
        if known is not None and not by_name:
            weight += known.weight
        members[task.task.name] = Member(task, one, weight)
    return _normalised([*members.values()])


def _normalised(members: Sequence[Member]) -> list[Member]:
    total = sum(member.weight for member in members)
    return [member._replace(weight=member.weight / total) for member in members]


def _weight(gate: Gate, result: GroupResult, task: TaskResult) -> Fraction:
    if isinstance(gate.weights, tuple):
        return Fraction(dict(gate.weights)[task.task.name])
    rule = next(r for r in result.group.aggregates if r.metric == gate.metric)
    by_size = rule.weighted if gate.weights == "" else gate.weights == "size"
    return Fraction(task.sample_len if by_size else 1)


def weights_fault(gate: Gate, names: Sequence[str]) -> str:
    """Why the weights do not fit the tasks; empty if they do."""
    if not isinstance(gate.weights, tuple):
        return ""
    given = dict(gate.weights)
    for name in given:
        if name not in names:
            return f"weights: the group has no task {name!r}{did_you_mean(name, names)}"
    lost = [name for name in dict.fromkeys(names) if name not in given]
    if lost:
        return f"weights: no weight of {', '.join(map(repr, lost[:3]))}"
    return ""
