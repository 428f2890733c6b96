"""The tasks of a group and how much each of them counts in a gate's number."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from pytest_evals.core.gate import Gate
from pytest_evals.core.metric import MetricResult
from pytest_evals.core.result import GroupResult, TaskResult
from pytest_evals.errors import did_you_mean
from pytest_evals.gates.evidence.reading import shortfall
from pytest_evals.gates.evidence.unsound import UnsoundError

__all__ = ["Member", "members_of", "weights_fault"]


class Member(NamedTuple):
    """A task of a group.

    Args:
        task: Its result.
        metric: The metric that the gate is about.
        weight: Its share of the group's number; all add up to 1.
        of_all: The same if documents without a score counted.
    """

    task: TaskResult
    metric: MetricResult
    weight: Fraction
    of_all: Fraction

    @property
    def name(self) -> str:
        """The task's name."""
        return self.task.task.name


def members_of(gate: Gate, metric: MetricResult, result: GroupResult) -> list[Member]:
    """The tasks that have the metric, each once.

    A task that the group reaches on several ways counts as many times.

    Raises:
        UnsoundError: The gate's weights do not fit the tasks, or no document of a task
            has a score though it was run.
    """
    for task in result.tasks:
        if _is_lost(task, metric.key):
            why = f"no document has a score{shortfall(task.n_errored, task.n_unscored)}"
            raise UnsoundError(why).of(task.task.name)
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
        n_lacking = one.n_errored + one.n_unscored
        weight = _weight(gate, result, task, task.sample_len)
        of_all = _weight(gate, result, task, task.sample_len + n_lacking)
        known = members.get(task.task.name)
        if known is not None and not by_name:
            weight, of_all = weight + known.weight, of_all + known.of_all
        members[task.task.name] = Member(task, one, weight, of_all)
    return _normalised([*members.values()])


def _is_lost(task: TaskResult, key: str) -> bool:
    """Whether all documents of a task that would have the metric lack a score."""
    mine = [one for one in task.metrics if one.key == key]
    if mine:
        return not any(one.n_scored for one in mine) and task.n_selected > 0
    return not task.sample_len and task.n_selected > 0


def _normalised(members: Sequence[Member]) -> list[Member]:
    total = sum(member.weight for member in members)
    of_all = sum(member.of_all for member in members)
    return [
        member._replace(weight=member.weight / total, of_all=member.of_all / of_all)
        for member in members
    ]


def _weight(gate: Gate, result: GroupResult, task: TaskResult, size: int) -> Fraction:
    if isinstance(gate.weights, tuple):
        return Fraction(dict(gate.weights)[task.task.name])
    rule = next(r for r in result.group.aggregates if r.metric == gate.metric)
    by_size = rule.weighted if gate.weights == "" else gate.weights == "size"
    return Fraction(size if by_size else 1)


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
