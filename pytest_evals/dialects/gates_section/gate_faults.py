"""Checks gates before anything runs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import reduce
from typing import NamedTuple

from pytest_evals.core.gate import Gate
from pytest_evals.core.metric import ACCURACIES, ANYTHING, SHARE, Metric, Span
from pytest_evals.core.task import Group, Task
from pytest_evals.errors import (
    DocumentError,
    Problem,
    did_you_mean,
    nearest,
    suggestion,
    unknown_name,
)
from pytest_evals.gates.check import (
    NO_GROUP_LABELS,
    direction_fault,
    labels_fault,
    span_fault,
)
from pytest_evals.gates.documents import labels_in
from pytest_evals.gates.read.entry import COMPARED
from pytest_evals.gates.reducers import n_needed
from pytest_evals.gates.run_metrics import RUN_METRICS, run_metrics_of

_RUN = [one.metric for one in RUN_METRICS.values()]


class GateFaults(NamedTuple):
    """Errors and warnings about gates."""

    problems: list[Problem]
    warnings: list[Problem]

    def add(self, other: GateFaults) -> None:
        """Add the errors and warnings of others."""
        self.problems.extend(other.problems)
        self.warnings.extend(other.warnings)


def task_faults(
    gates: Iterable[Gate], task: Task, ids: Collection[str], *, limited: bool
) -> GateFaults:
    """Return errors and warnings about a task's gates. ``limited``: whether the task
    has more documents than these."""
    faults = GateFaults([], [])
    for gate in gates:
        warning = ""
        if gate.is_about_documents:
            lost = [] if limited else [i for i in gate.must_pass if i not in ids]
            errors = [unknown_name("document", i, sorted(ids)) for i in lost]
            errors += _answer_faults(gate, task)
        elif gate.baseline and gate.margin is None:  # agreement, flips, kl
            errors = _cluster_faults(gate, task) if ids else []
            span = Span(*COMPARED[gate.metric])
            if gate.over != "run" and (fault := span_fault(gate, span)):
                errors.append(fault)
        else:
            metrics = _with_run_metric(gate, task)
            errors = _metric_faults(gate, metrics)
            if not errors:
                errors, warning = _span_faults(gate, metrics)
                gate = _on_its_scale(gate, errors, task.metrics)
            errors += _reducer_faults(gate, [task])
            errors += _cluster_faults(gate, task) if ids else []
        _add(gate, errors, warning, faults)
    return faults


def group_faults(gates: Iterable[Gate], group: Group, *, hooked: bool) -> GateFaults:
    """Return errors and warnings about a group's gates. A group has the numbers of its
    ``aggregate_metric_list`` only. ``hooked``: whether hooks may add metrics to its
    tasks or change their scores."""
    every = [metric for task in group.tasks() for metric in task.metrics]
    listed = [
        metric
        for metric in {metric.key: metric for metric in every}.values()
        if any(
            rule.metric == metric.name and rule.takes(metric.filter)
            for rule in group.aggregates
        )
    ]
    names = [rule.metric for rule in group.aggregates]
    faults = GateFaults([], [])
    for gate in gates:
        if gate.is_about_documents:
            message = "must_pass and every apply to tasks, not to groups"
            faults.problems.append(Problem(message, gate.source))
        elif gate.baseline and gate.margin is None:
            message = f"{gate.metric} is a number of a task, not of a group"
            faults.problems.append(Problem(message, gate.source))
        elif gate.metric not in names and gate.metric in RUN_METRICS:
            one = RUN_METRICS[gate.metric]
            errors = list(filter(None, [one.fault(gate)]))
            errors = errors or _span_faults(gate, [one.metric])[0]
            _add(gate, errors, "", faults)
        elif gate.metric not in names:
            message = f"unknown metric {gate.metric!r} of group {group.name!r}"
            near = did_you_mean(gate.metric, [*names, *RUN_METRICS])
            message += near or f"; it has {', '.join(names) or 'none'}"
            fix = "" if near else f"aggregate_metric_list: [{{metric: {gate.metric}}}]"
            faults.problems.append(Problem(message, gate.source, fix))
        elif any(metric.name == gate.metric for metric in listed):
            errors = _metric_faults(gate, listed)
            named = [one for one in listed if one.name == gate.metric]
            if any(one.labels is not None for one in named):
                errors = [NO_GROUP_LABELS]
            errors += _reducer_faults(gate, group.tasks())
            warning = ""
            if not errors and not hooked:
                errors, warning = _span_faults(gate, every)
            _add(gate, errors, warning, faults)
        elif not hooked:
            errors = _unknown_metric(gate.metric, every, "its tasks have")
            _add(gate, errors, "", faults)
    return faults


def _add(gate: Gate, errors: Sequence[str], warning: str, faults: GateFaults) -> None:
    """Add a gate's errors; for a gate of another program's file, all are warnings."""
    kept = faults.warnings if gate.foreign else faults.problems
    kept.extend(Problem(message, gate.source) for message in errors)
    if warning:
        faults.warnings.append(Problem(warning, gate.source))


def _with_run_metric(gate: Gate, task: Task) -> Sequence[Metric]:
    """Return the metrics of a task, and the run metric that a gate names, unless the
    task has a metric with that name."""
    metrics = task.metrics
    # A user function may return a value with that name.
    if any(one.name == gate.metric or one.several is not None for one in metrics):
        return metrics
    run_metric = run_metrics_of(task).get(gate.metric)
    return metrics if run_metric is None else (*metrics, run_metric)


def _metric_faults(gate: Gate, metrics: Sequence[Metric]) -> list[str]:
    named = [metric for metric in metrics if metric.name == gate.metric]
    if not named:
        return _unknown_metric(gate.metric, metrics, "the task has")
    if any(metric is named[0] for metric in _RUN) and (
        fault := RUN_METRICS[gate.metric].fault(gate)
    ):
        return [fault]
    filters = [metric.filter for metric in named]
    if gate.filter and gate.filter not in filters:
        hint = suggestion(gate.filter, filters)
        return [f"unknown filter {gate.filter!r} of {gate.metric!r}{hint}"]
    if not gate.filter and len(filters) > 1:
        keys = ", ".join(repr(metric.key) for metric in named)
        return [
            f"{gate.metric!r} exists under {len(filters)} filters: name one of {keys}"
        ]
    fault = direction_fault(gate, named[0].higher_is_better)
    if named[0].labels is not None:
        fault = fault or labels_fault(gate)
    return [fault] if fault else []


def _unknown_metric(name: str, metrics: Sequence[Metric], has: str) -> list[str]:
    """Return the error for an unknown metric. User functions may return values with
    other names; then only a name similar to a known one is an error."""
    if not metrics or any(metric.several is not None for metric in metrics):
        return []
    names = list(dict.fromkeys(metric.name for metric in metrics))
    is_misspelt = bool(nearest(name, names))
    if not is_misspelt and not all(metric.closed for metric in metrics):
        return []
    near_run = "" if is_misspelt else nearest(name, RUN_METRICS)
    hint = suggestion(name, [near_run] if near_run else names)
    hint = "" if "; known: " in hint else hint
    message = f"unknown metric {name!r}{hint or ';'} {has} {', '.join(names)}"
    return [message if hint else f"{message}: name one of these, or add {name!r}"]


def _span_faults(gate: Gate, metrics: Sequence[Metric]) -> tuple[list[str], str]:
    """Return the error of a threshold outside the metric's range, and a warning for a
    mean whose name usually is a share of documents, because a user function may mean
    another number."""
    named = [metric for metric in metrics if metric.name == gate.metric]
    if not named:
        return [], ""
    span = reduce(Span.around, (metric.span for metric in named))
    fault = span_fault(gate, span, named[0].scale)
    if gate.range is not None and not any(
        one.is_mean or one.several or not one.closed for one in named
    ):
        fault = f"range is that of a mean over documents, and {gate.metric} is none"
    if fault:
        return [fault], ""
    is_usual = gate.metric in ACCURACIES and all(metric.is_mean for metric in named)
    warning = span_fault(gate, SHARE) if span == ANYTHING and is_usual else ""
    return [], f"{warning}, if it is a share of documents as usual" if warning else ""


def _on_its_scale(gate: Gate, errors: Sequence[str], metrics: Sequence[Metric]) -> Gate:
    """Return the gate; a threshold on the scale of a judge, whose scores are stored as
    shares, is an error in files of other programs too."""
    scaled = any(one.name == gate.metric and one.scale for one in metrics)
    return replace(gate, foreign=False) if errors and scaled else gate


def _cluster_faults(gate: Gate, task: Task) -> list[str]:
    if not gate.cluster:
        return []
    try:
        doc = task.ask(task.rows.indices()[0]).doc
    except DocumentError:  # reported when the document is run
        return []
    if labels_in(doc, [gate.cluster]):
        return []
    known = [str(key) for key in doc.row]
    hint = suggestion(gate.cluster, known)
    return [f"documents have no field {gate.cluster!r} to cluster by{hint}"]


def _answer_faults(gate: Gate, task: Task) -> list[str]:
    if gate.every is None or task.repeats >= gate.every.n:
        return []
    return [
        f"every: {gate.every} needs {gate.every.n} answers to each document, but the "
        f"task has {task.repeats}: set repeats: {gate.every.n} in the task"
    ]


def _reducer_faults(gate: Gate, tasks: Iterable[Task]) -> list[str]:
    if not gate.reducer:
        return []
    least = max(2, n_needed(gate.reducer))
    return [
        f"reducer {gate.reducer!r} needs {least} answers to each document, and task "
        f"{task.name!r} asks for {task.repeats}; write repeats: {least} there"
        for task in tasks
        if task.repeats < least
    ]
