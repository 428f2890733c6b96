"""Results of groups, aggregated from the results of tasks.

The rules are lm-eval's (0.4.13, ``lm_eval.api.group.Group.aggregate``): an average over
all tasks of the group that have the metric, with a standard error only if each of them
has one. Errors are counted, as for a task, and never averaged.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from pytest_evals.core.metric import Estimate, MetricResult
from pytest_evals.core.result import GroupResult, TaskResult
from pytest_evals.core.task import Aggregate, Group
from pytest_evals.errors import suggestion

_SHOWN = 5  # maximum number of tasks in a note


class _Part(NamedTuple):
    """A task's part of a group's result."""

    task: TaskResult
    metric: MetricResult


def summarise_group(group: Group, results: Mapping[str, TaskResult]) -> GroupResult:
    """Compute a group's results. ``results``: results of tasks by name; missing
    tasks are ignored."""
    tasks = tuple(results[t.name] for t in group.tasks() if t.name in results)
    metrics: dict[str, MetricResult] = {}
    counts: dict[str, int] = {}
    notes: list[str] = []
    measured = {rule.metric for rule in group.aggregates}
    without = [t for t in tasks if measured.isdisjoint(m.name for m in t.metrics)]
    for rule in group.aggregates:
        for name in _filters(rule, tasks):
            parts = [
                _Part(task, metric)
                for task in tasks
                for metric in task.metrics
                if (metric.name, metric.filter) == (rule.metric, name)
            ]
            if not parts:
                continue
            key = parts[0].metric.key
            metrics[key] = _combine(rule, name, parts, tasks)
            counts[key] = sum(part.task.sample_len for part in parts)
            notes += _gaps(key, without, tasks)
        if rule.metric not in {metric.name for metric in metrics.values()}:
            known = sorted({m.name for task in tasks for m in task.metrics})
            hint = suggestion(rule.metric, known)
            notes.append(f"no task of the group has the metric {rule.metric!r}{hint}")
    return GroupResult(
        group=group,
        tasks=tasks,
        metrics=tuple(metrics.values()),
        sample_counts=counts,
        notes=tuple(notes),
    )


def overall_results(
    tasks: Sequence[TaskResult], groups: Iterable[str] = ()
) -> tuple[GroupResult, ...]:
    """Averages over all tasks that share ``Task.overall``: for each metric, the
    unweighted mean over the tasks that have it (lighteval 0.13.0,
    ``logging/info_loggers.py``). ``groups``: names of its groups. An average with the
    name of a task or group is left out."""
    taken = {*groups, *(task.task.name for task in tasks)}
    names = dict.fromkeys(one.task.overall for one in tasks if one.task.overall)
    return tuple(
        _overall(name, [one for one in tasks if one.task.overall == name])
        for name in names
        if name not in taken
    )


def _overall(name: str, tasks: Sequence[TaskResult]) -> GroupResult:
    keys = dict.fromkeys((m.name, m.filter) for one in tasks for m in one.metrics)
    group = Group(
        name=name,
        source=tasks[0].task.source,
        children=tuple(one.task for one in tasks),
        aggregates=tuple(
            Aggregate(metric=metric, filters=(filter_,), weighted=False)
            for metric, filter_ in keys
        ),
    )
    return summarise_group(group, {one.task.name: one for one in tasks})


def _filters(rule: Aggregate, tasks: Iterable[TaskResult]) -> Sequence[str]:
    if rule.filters is not None:
        return rule.filters
    names = (m.filter for t in tasks for m in t.metrics if m.name == rule.metric)
    return sorted(set(names))


def _combine(
    rule: Aggregate, name: str, parts: Sequence[_Part], tasks: Sequence[TaskResult]
) -> MetricResult:
    with_metric = {part.task.task.name for part in parts}
    others = [one for one in tasks if one.task.name not in with_metric]
    # It is unknown whether tasks without any score have the metric.
    unknown = [one for one in others if not one.sample_len and one.n_selected]
    # A task that does not declare it is not part of the average, as in lm-eval.
    declared = [
        one
        for one in others
        if any((m.name, m.filter) == (rule.metric, name) for m in one.task.metrics)
    ]
    metrics = [part.metric for part in parts]
    lacking: list[MetricResult | TaskResult] = [*metrics, *unknown]
    broken = [p for p in parts if p.metric.n_scored and p.metric.estimate is None]
    error = f"{broken[0].task.task.name}: {broken[0].metric.error}" if broken else ""
    directions = {metric.higher_is_better for metric in metrics}
    direction = directions.pop() if len(directions) == 1 else None
    return MetricResult(
        name=rule.metric,
        filter=name,
        estimate=None if broken else _estimate(rule, parts),
        higher_is_better=rule.higher_is_better if direction is None else direction,
        n_scored=sum(m.n_scored for m in metrics),
        n_errored=sum(one.n_errored for one in lacking),
        n_unscored=sum(m.n_unscored for m in metrics),
        n_missing=sum(one.n_missing for one in lacking),
        n_absent=sum(m.n_absent for m in metrics) + sum(t.sample_len for t in declared),
        total=_total(rule, parts),
        error=error,
    )


def _estimate(rule: Aggregate, parts: Sequence[_Part]) -> Estimate | None:
    estimates = [
        (p.task.sample_len, p.metric.estimate) for p in parts if p.metric.estimate
    ]
    if not estimates:
        return None
    sizes = [size for size, _ in estimates]
    value = mean_of_means(
        [estimate.value for _, estimate in estimates],
        sizes if rule.weighted else [1] * len(sizes),
    )
    stderrs = [e.stderr for _, e in estimates if e.stderr is not None]
    if len(stderrs) < len(estimates):
        return Estimate(value)
    stderr = pooled_stderr(stderrs, sizes) if rule.weighted else plain_stderr(stderrs)
    return Estimate(value, stderr, "" if stderr is None else "analytic")


def _total(rule: Aggregate, parts: Sequence[_Part]) -> int | None:
    """Number of correct answers in all tasks, if the average is their fraction of all
    documents."""
    if len({part.task.task.name for part in parts}) < len(parts):
        return None
    total = 0
    for task, metric in parts:
        if not metric.n_scored:
            continue
        is_binary = metric.how is None or metric.how.known_limits == (0, 1)
        has_all = rule.weighted and metric.n_scored == task.sample_len
        if metric.total is None or not (is_binary and has_all):
            return None
        total += metric.total
    return total


def _gaps(
    key: str, without: Sequence[TaskResult], tasks: Sequence[TaskResult]
) -> Iterable[str]:
    """Yield how many tasks have none of a group's metrics; tasks with different ones
    are usual."""
    names = {task.task.name for task in tasks}
    lost = list(dict.fromkeys(task.task.name for task in without))
    if lost:
        more = f" and {len(lost) - _SHOWN} more" if len(lost) > _SHOWN else ""
        shown = ", ".join(lost[:_SHOWN])
        have = "has" if len(lost) == 1 else "have"
        yield f"{len(lost)} of {len(names)} tasks {have} no {key}: {shown}{more}"


# The formulas are lm-eval's (0.4.13, ``lm_eval.api.metrics``:
# ``aggregate_subtask_metrics``, ``pooled_sample_stderr``, ``unweighted_mean_stderr``).
def mean_of_means(values: Sequence[float], weights: Sequence[int]) -> float:
    """Return the weighted mean of ``values``. Raises ZeroDivisionError if the weights
    add up to 0."""
    total = sum(v * w for v, w in zip(values, weights, strict=True))
    return total / sum(weights)


def pooled_stderr(stderrs: Sequence[float], sizes: Sequence[int]) -> float | None:
    """Return the standard error of the mean over all documents of several tasks, from
    each task's standard error: the pooled variance over the root of all sizes. Returns
    ``None`` if no task has more than one document."""
    freedom = sum(sizes) - len(sizes)
    if freedom <= 0:
        return None
    variance = sum(
        (n - 1) * stderr**2 * n for n, stderr in zip(sizes, stderrs, strict=True)
    )
    return math.sqrt(variance / freedom / sum(sizes))


def plain_stderr(stderrs: Sequence[float]) -> float:
    """Return the standard error of the unweighted mean of independent means; must not
    be empty."""
    return math.sqrt(sum(stderr**2 for stderr in stderrs)) / len(stderrs)
