"""What is wrong with gates as far as it is known before anything runs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import reduce
from typing import NamedTuple

from pytest_evals.core.gate import Gate
from pytest_evals.core.group import Group
from pytest_evals.core.metric import ANYTHING, SHARE, Metric, Span
from pytest_evals.core.task import Task
from pytest_evals.errors import DocumentError, Problem, did_you_mean
from pytest_evals.gates.check import direction_fault, span_fault, weights_fault
from pytest_evals.gates.documents import labels_in, n_needed
from pytest_evals.gates.early_stopping.steps import SHARES
from pytest_evals.gates.run_metrics import RUN_METRICS, run_metrics_of

_RUN = [one.metric for one in RUN_METRICS.values()]


class GateFaults(NamedTuple):
    """What is wrong with gates: errors, and what is only worth a warning."""

    problems: list[Problem]
    warnings: list[Problem]

    def add(self, other: GateFaults) -> None:
        """Take over what is wrong with others."""
        self.problems.extend(other.problems)
        self.warnings.extend(other.warnings)


def task_faults(
    gates: Iterable[Gate], task: Task, ids: Collection[str], *, limited: bool
) -> GateFaults:
    """What is wrong with a task's gates.

    Args:
        gates: Gates of the task.
        task: The task.
        ids: Ids of its documents.
        limited: Whether there are more documents than these.
    """
    found = GateFaults([], [])
    for gate in gates:
        odd = ""
        if gate.is_about_documents:
            lost = [] if limited else [i for i in gate.must_pass if i not in ids]
            whats = [f"no document called {i!r}{did_you_mean(i, [*ids])}" for i in lost]
            whats += _answer_faults(gate, task)
        elif gate.baseline and gate.margin is None:  # agreement, flips, kl
            whats = _cluster_faults(gate, task) if ids else []
        else:
            metrics = _with_run_metric(gate, task)
            whats = _metric_faults(gate, metrics)
            if not whats:
                whats, odd = _span_faults(gate, metrics)
                gate = _on_its_scale(gate, whats, task.metrics)
            whats += _reducer_faults(gate, [task])
            whats += _cluster_faults(gate, task) if ids else []
            if gate.each is not None or gate.weights:
                what = "each and weights are about the tasks of a group"
                whats.append(f"{what}, and this is a task")
        _sort(gate, whats, odd, found)
    return found


def group_faults(gates: Iterable[Gate], group: Group, *, hooked: bool) -> GateFaults:
    """What is wrong with a group's gates.

    A group has the numbers that its ``aggregate_metric_list`` says, and no others.

    Args:
        gates: Gates of the group.
        group: The group.
        hooked: Whether hooks may add metrics to its tasks or change their scores.
    """
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
    found = GateFaults([], [])
    for gate in gates:
        if gate.is_about_documents:
            what = "must_pass and every are about a task, not about a group"
            found.problems.append(Problem(what, gate.source))
        elif gate.baseline and gate.margin is None:
            what = f"{gate.metric} is a number of a task, not of a group"
            found.problems.append(Problem(what, gate.source))
        elif gate.metric not in names and gate.metric in RUN_METRICS:
            one = RUN_METRICS[gate.metric]
            whats = list(filter(None, [one.fault(gate)]))
            whats = whats or _span_faults(gate, [one.metric])[0]
            _sort(gate, whats, "", found)
        elif gate.metric not in names:
            what = f"group {group.name!r} has no number called {gate.metric!r}"
            hint = did_you_mean(gate.metric, [*names, *RUN_METRICS])
            fix = f"aggregate_metric_list: [{{metric: {gate.metric}}}]"
            found.problems.append(Problem(what + hint, gate.source, fix))
        elif any(metric.name == gate.metric for metric in listed):
            weights = weights_fault(gate, [task.name for task in group.tasks()])
            whats = _metric_faults(gate, listed) + [weights] * bool(weights)
            whats += _reducer_faults(gate, group.tasks())
            odd = ""
            if not whats and not hooked:
                whats, odd = _span_faults(gate, every)
            _sort(gate, whats, odd, found)
        elif not hooked:
            whats = _unknown_metric(gate.metric, every, "its tasks have")
            _sort(gate, whats, "", found)
    return found


def _sort(gate: Gate, whats: Sequence[str], odd: str, found: GateFaults) -> None:
    """Add a gate's faults; of a gate that was written for another program, all are
    warnings."""
    kept = found.warnings if gate.foreign else found.problems
    kept.extend(Problem(what, gate.source) for what in whats)
    if odd:
        found.warnings.append(Problem(odd, gate.source))


def _with_run_metric(gate: Gate, task: Task) -> Sequence[Metric]:
    """The metrics of a task, and that of the run which a gate names, if the task has
    none of that name."""
    metrics = task.metrics
    # A function of the user's may give a number of that name.
    if any(one.name == gate.metric or one.several is not None for one in metrics):
        return metrics
    own = run_metrics_of(task).get(gate.metric)
    return metrics if own is None else (*metrics, own)


def _metric_faults(gate: Gate, metrics: Sequence[Metric]) -> list[str]:
    """What is wrong with the metric that a gate names."""
    named = [metric for metric in metrics if metric.name == gate.metric]
    if not named:
        return _unknown_metric(gate.metric, metrics, "the task has")
    if any(metric is named[0] for metric in _RUN) and (
        fault := RUN_METRICS[gate.metric].fault(gate)
    ):
        return [fault]
    filters = [metric.filter for metric in named]
    if gate.filter and gate.filter not in filters:
        hint = did_you_mean(gate.filter, filters) or f"; there is {', '.join(filters)}"
        return [f"{gate.metric!r} has no filter called {gate.filter!r}{hint}"]
    if not gate.filter and len(filters) > 1:
        keys = ", ".join(repr(metric.key) for metric in named)
        return [
            f"{gate.metric!r} exists under {len(filters)} filters: name one of {keys}"
        ]
    fault = direction_fault(gate, named[0].higher_is_better)
    return [fault] if fault else []


def _unknown_metric(name: str, metrics: Sequence[Metric], has: str) -> list[str]:
    """A metric that the task does not have. Functions of users may give numbers under
    other names than those that are listed: then only a name near these is a fault."""
    if not metrics or any(metric.several is not None for metric in metrics):
        return []
    names = list(dict.fromkeys(metric.name for metric in metrics))
    hint = did_you_mean(name, names)
    if not hint and not all(metric.closed for metric in metrics):
        return []
    hint = hint or did_you_mean(name, [*RUN_METRICS])
    longer = [one for one in names if one.startswith(name) or name.startswith(one)]
    if longer and not hint:
        hint = f"; did you mean {min(longer, key=len)!r}?"
    return [f"no metric called {name!r}{hint or ';'} {has} {', '.join(names)}"]


def _span_faults(gate: Gate, metrics: Sequence[Metric]) -> tuple[list[str], str]:
    """What is wrong with a claim by the values that its metric can have, and what would
    be if a mean that is called like a share of documents were one: a user's function
    may mean another number by it."""
    named = [metric for metric in metrics if metric.name == gate.metric]
    if not named:
        return [], ""
    span = reduce(Span.around, (metric.span for metric in named))
    fault = span_fault(gate, span, named[0].scale)
    if fault:
        return [fault], ""
    is_usual = gate.metric in SHARES and all(metric.is_mean for metric in named)
    odd = span_fault(gate, SHARE) if span == ANYTHING and is_usual else ""
    return [], f"{odd}, if it is a share of documents as usual" if odd else ""


def _on_its_scale(gate: Gate, whats: Sequence[str], metrics: Sequence[Metric]) -> Gate:
    """The gate; a limit on the scale of a judge, whose grades are stored as shares, is
    an error in files of others too."""
    scaled = any(one.name == gate.metric and one.scale for one in metrics)
    return replace(gate, foreign=False) if whats and scaled else gate


def _cluster_faults(gate: Gate, task: Task) -> list[str]:
    """A field that the first document does not have."""
    if not gate.cluster:
        return []
    try:
        doc = task.ask(task.rows.indices()[0]).doc
    except DocumentError:  # reported when the document is run
        return []
    if labels_in(doc, [gate.cluster]):
        return []
    known = [str(key) for key in doc.row]
    hint = did_you_mean(gate.cluster, known) or f"; fields: {', '.join(known)}"
    return [f"documents have no field {gate.cluster!r} to cluster by{hint}"]


def _answer_faults(gate: Gate, task: Task) -> list[str]:
    """Too few answers to each document for ``every`` or a share of them."""
    needed = gate.every.n if gate.every else 2 if gate.must_pass_share != 1 else 1
    if task.repeats >= needed:
        return []
    key = f"every: {gate.every}" if gate.every else "share"
    return [
        f"{key} needs {needed} answers to each document, and the task has "
        f"{task.repeats}: set repeats: {needed} in the task"
    ]


def _reducer_faults(gate: Gate, tasks: Iterable[Task]) -> list[str]:
    """Tasks that ask fewer times than a reducer needs."""
    if not gate.reducer:
        return []
    least = max(2, n_needed(gate.reducer))
    return [
        f"reducer {gate.reducer!r} needs {least} answers to each document, and task "
        f"{task.name!r} asks for {task.repeats}; write repeats: {least} there"
        for task in tasks
        if task.repeats < least
    ]
