"""Fields of groups in ``results.json``: lm-eval's fields and rules (0.4.13,
``evaluator_utils.py``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_evals.core.metric import MetricResult
from pytest_evals.core.result import GroupResult

Groups = Sequence[GroupResult]
Directions = Mapping[str, bool | None]


def metric_values(metrics: Sequence[MetricResult]) -> dict[str, Any]:
    """``acc,none`` and ``acc_stderr,none`` for each metric."""
    values: dict[str, Any] = {}
    for metric in metrics:
        estimate = metric.estimate
        values[metric.key] = estimate.value if estimate else None
        stderr = estimate.stderr if estimate else None
        key = f"{metric.name}_stderr,{metric.filter}"
        values[key] = "N/A" if stderr is None else stderr
    return values


def group_results(
    tasks: Mapping[str, Any], groups: Groups, overall: Groups
) -> dict[str, Any]:
    """``results`` of tasks and groups, and ``groups`` if any group has numbers."""
    mine = {one.group.name: _numbers(one) for one in groups}
    averages = {one.group.name: _numbers(one) for one in overall}
    everything: dict[str, Any] = {"results": {**tasks, **mine, **averages}}
    with_numbers = {
        one.group.name: mine[one.group.name] for one in groups if one.group.aggregates
    }
    if with_numbers:
        everything["groups"] = with_numbers
    return everything


def _numbers(result: GroupResult) -> dict[str, Any]:
    group = result.group
    numbers: dict[str, Any] = {"alias": group.alias or group.name, "name": group.name}
    if not group.aggregates:
        return numbers
    numbers |= {"sample_len": result.sample_len, **metric_values(result.metrics)}
    if result.sample_counts:
        numbers["sample_count"] = dict(result.sample_counts)
    return numbers


def group_members(groups: Groups) -> dict[str, list[str]]:
    """Return ``group_subtasks``: the names of the members of each group."""
    return {one.group.name: _children(one) for one in groups}


def _children(result: GroupResult) -> list[str]:
    return [child.name for child in result.group.children]


def with_groups_shots(tasks: Mapping[str, int], groups: Groups) -> dict[str, int]:
    """Return ``n-shot``: a group has the number that its own tasks have in common.

    As in lm-eval, groups come before the groups that they contain, which therefore do
    not count.
    """
    shots = dict(tasks)
    for one in groups:
        numbers = {shots[name] for name in _children(one) if name in shots}
        if len(numbers) == 1:
            shots[one.group.name] = numbers.pop()
    return shots


def with_groups_directions(
    tasks: Mapping[str, Directions], groups: Groups
) -> dict[str, Directions]:
    """Return ``higher_is_better``: a group has the metrics of all its members, without
    a direction if members differ."""
    directions = dict(tasks)
    for one in groups:
        merged: dict[str, bool | None] = {}
        for name in _children(one):
            for metric, direction in directions.get(name, {}).items():
                known = merged.setdefault(metric, direction)
                if known != direction:
                    merged[metric] = None
        if merged:
            directions[one.group.name] = merged
    return directions
