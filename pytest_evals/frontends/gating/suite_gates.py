"""Which gates a task or a group has: its own, those of a gates.yaml beside or above its
file, and those of the command line."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from pytest_evals.core.gate import Gate
from pytest_evals.core.group import Group
from pytest_evals.core.metric import Metric
from pytest_evals.core.task import Task
from pytest_evals.errors import (
    DocumentError,
    OptionError,
    Problem,
    TaskFileError,
    did_you_mean,
)
from pytest_evals.frontends.gating.gates_file import load_gates
from pytest_evals.gates.baseline.versus import direction_fault
from pytest_evals.gates.evidence.documents import labels_in
from pytest_evals.gates.evidence.reducers import n_needed
from pytest_evals.gates.groups.members import weights_fault
from pytest_evals.gates.rules.grammar import with_unique_ids
from pytest_evals.gates.stopping.steps import SHARES

__all__ = ["FILE_NAMES", "SuiteGates", "faults_of", "group_faults"]

FILE_NAMES = ("gates.yaml", "gates.yml")


class SuiteGates:
    """All gates that do not stand in a task's own file."""

    def __init__(
        self,
        root: Path,
        given: Sequence[Gate],
        measured: Callable[[Gate], float | None],
    ) -> None:
        """Know the gates of the command line; files are read when a task is.

        Args:
            root: The folder above which no file is looked for.
            given: Gates of the command line.
            measured: The share of a gate's answers that turn between two runs, if
                somebody has measured it.
        """
        self._root, self._measured = root, measured
        self._given = given
        self._files: dict[Path, tuple[Gate, ...]] = {}
        self._used: set[int] = set()

    def of(
        self,
        owner: Task | Group,
        own: Iterable[Gate],
        folder: Path,
        metrics: Iterable[Metric] = (),
    ) -> tuple[Gate, ...]:
        """All gates of a task or a group, with unique ids.

        Args:
            owner: The task or group.
            own: The gates of its own file.
            folder: Where gates files are looked for, and in all folders above it.
            metrics: What a gate that names no task may be about.

        Raises:
            TaskFileError: A gates.yaml cannot be used.
        """
        from_files = [g for g in self._from_files(folder) if g.task == owner.name]
        names = {metric.name for metric in metrics}
        given = [
            gate
            for gate in self._given
            if gate.task == owner.name or (not gate.task and gate.metric in names)
        ]
        self._used.update(id(gate) for gate in (*from_files, *given))
        mine = (replace(gate, task=owner.name) for gate in given)
        gates = with_unique_ids([*own, *from_files, *mine])
        return tuple(map(self.with_noise, gates))

    def with_noise(self, gate: Gate) -> Gate:
        """The gate with the noise that was measured, where it counts some; what was
        measured is of the answers that the task's filters choose."""
        wants = gate.over == "benchmark" and gate.measured and gate.flip_rate is None
        wants = wants and not gate.reducer
        return replace(gate, flip_rate=self._measured(gate)) if wants else gate

    def _from_files(self, folder: Path) -> Iterator[Gate]:
        for place in (folder, *folder.parents):
            for name in FILE_NAMES:
                path = place / name
                if path not in self._files:
                    self._files[path] = _load(path)
                yield from self._files[path]
            if place == self._root:
                return

    def check(
        self, tasks: Iterable[Task], groups: Iterable[Group], whole: Sequence[Path]
    ) -> None:
        """Refuse gates that no task and no group answers for.

        Args:
            tasks: All tasks of the session.
            groups: All its groups.
            whole: Folders that were collected whole: there, a gates.yaml that names a
                task that does not exist is a mistake.

        Raises:
            OptionError: A gate names a task or a metric that does not exist.
        """
        known = list(tasks)
        names = [task.name for task in known] + [group.name for group in groups]
        problems = [
            f"{gate.source}: {_nowhere(gate, known, names)}"
            for gate in self._given
            if id(gate) not in self._used
        ]
        for path, gates in self._files.items():
            if any(path.parent.is_relative_to(folder) for folder in whole):
                problems += [
                    f"{gate.source}: {_unknown(gate.task, names)}"
                    for gate in gates
                    if gate.task not in names
                ]
        if problems:
            raise OptionError("\n".join(problems))


def faults_of(
    gates: Iterable[Gate], task: Task, ids: Collection[str], *, limited: bool
) -> list[Problem]:
    """What is wrong with a task's gates as far as it is known before anything runs.

    Args:
        gates: Gates of the task.
        task: The task; scorers may give metrics that it does not list, so only a name
            near a listed one is a fault.
        ids: Ids of its documents.
        limited: Whether there are more documents than these.
    """
    problems = []
    for gate in gates:
        if gate.must_pass:
            lost = [] if limited else [i for i in gate.must_pass if i not in ids]
            whats = [f"no document called {i!r}{did_you_mean(i, [*ids])}" for i in lost]
        else:
            whats = _metric_faults(gate, task.metrics)
            whats += _reducer_faults(gate, [task])
            whats += _cluster_faults(gate, task) if ids else []
            if gate.each is not None or gate.weights:
                what = "each and weights are about the tasks of a group"
                whats.append(f"{what}, and this is a task")
        problems += [Problem(what, gate.source) for what in whats]
    return problems


def _cluster_faults(gate: Gate, task: Task) -> list[str]:
    """A field that the first document does not have."""
    if not gate.cluster:
        return []
    try:
        doc = task.ask(task.rows.indices()[0]).doc
    except DocumentError:  # told when the document is run
        return []
    if labels_in(doc, [gate.cluster]):
        return []
    known = [str(key) for key in doc.row]
    hint = did_you_mean(gate.cluster, known) or f"; fields: {', '.join(known)}"
    return [f"documents have no field {gate.cluster!r} to cluster by{hint}"]


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


def _metric_faults(gate: Gate, metrics: Sequence[Metric]) -> list[str]:
    named = [metric for metric in metrics if metric.name == gate.metric]
    if not named:
        if any(metric.several is not None for metric in metrics):
            return []
        hint = did_you_mean(gate.metric, [metric.name for metric in metrics])
        return [f"no metric called {gate.metric!r}{hint}"] if hint else []
    filters = [metric.filter for metric in named]
    if gate.filter and gate.filter not in filters:
        hint = did_you_mean(gate.filter, filters) or f"; there is {', '.join(filters)}"
        return [f"{gate.metric!r} has no filter called {gate.filter!r}{hint}"]
    if not gate.filter and len(filters) > 1:
        keys = ", ".join(repr(metric.key) for metric in named)
        return [
            f"{gate.metric!r} exists under {len(filters)} filters: name one of {keys}"
        ]
    wrong_side = direction_fault(gate, named[0].higher_is_better)
    if wrong_side:
        return [wrong_side]
    share = named[0].is_mean and gate.metric in SHARES
    return [
        f"{gate.metric} lies between 0 and 1, so {bound} says nothing"
        + (f"; did you mean {bound.op} {bound.value}%?" if bound.value <= 100 else "")
        for bound in gate.bounds
        if share and not 0 <= bound.value <= 1
    ]


def group_faults(gates: Iterable[Gate], group: Group) -> list[Problem]:
    """What is wrong with a group's gates as far as it is known before anything runs.

    A group has the numbers that its ``aggregate_metric_list`` says, and no others.
    """
    listed = [
        metric
        for metric in {
            m.key: m for task in group.tasks() for m in task.metrics
        }.values()
        if any(
            rule.metric == metric.name and rule.takes(metric.filter)
            for rule in group.aggregates
        )
    ]
    names = [rule.metric for rule in group.aggregates]
    problems = []
    for gate in gates:
        if gate.must_pass:
            what = "must_pass is about documents of a task, and this is a group"
            problems.append(Problem(what, gate.source))
        elif gate.metric not in names:
            what = f"group {group.name!r} has no number called {gate.metric!r}"
            hint = did_you_mean(gate.metric, names)
            fix = f"aggregate_metric_list: [{{metric: {gate.metric}}}]"
            problems.append(Problem(what + hint, gate.source, fix))
        elif any(metric.name == gate.metric for metric in listed):
            names_of_tasks = [task.name for task in group.tasks()]
            weights = weights_fault(gate, names_of_tasks)
            whats = _metric_faults(gate, listed) + [weights] * bool(weights)
            whats += _reducer_faults(gate, group.tasks())
            problems += [Problem(what, gate.source) for what in whats]
    return problems


def _unknown(name: str, names: Sequence[str]) -> str:
    return f"no task called {name!r}{did_you_mean(name, names)}"


def _nowhere(gate: Gate, tasks: Sequence[Task], names: Sequence[str]) -> str:
    if gate.task:
        return _unknown(gate.task, names)
    metrics = sorted({metric.name for task in tasks for metric in task.metrics})
    hint = did_you_mean(gate.metric, metrics) or f"; known: {', '.join(metrics)}"
    return f"no task has a metric called {gate.metric!r}{hint}"


def _load(path: Path) -> tuple[Gate, ...]:
    if not os.path.isfile(path):
        return ()
    gates = load_gates(path)
    lost = [gate for gate in gates if not gate.task]
    if lost:
        raise TaskFileError(
            Problem("the gate names no task", gate.source, "write TASK/METRIC >= …")
            for gate in lost
        )
    return gates
