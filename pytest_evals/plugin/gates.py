"""Which gates a task has: its own, those of a gates.yaml beside or above its file, and
those of the command line."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_evals.core.gate import Gate
from pytest_evals.core.task import Task
from pytest_evals.errors import Problem, TaskFileError, did_you_mean
from pytest_evals.gates.grammar import with_unique_ids

__all__ = ["FILE_NAMES", "SessionGates", "faults_of"]

FILE_NAMES = ("gates.yaml", "gates.yml")
_SHARES = ("acc", "acc_norm", "acc_bytes", "acc_mutual_info", "exact_match")
"""Metrics that are shares of documents when they are averaged."""


class SessionGates:
    """All gates that do not stand in a task's own file."""

    def __init__(self, root: Path, given: Sequence[Gate]) -> None:
        """Know the gates of the command line; files are read when a task is."""
        self._root = root
        self._given = given
        self._files: dict[Path, tuple[Gate, ...]] = {}
        self._used: set[int] = set()

    def of(self, task: Task, folder: Path) -> tuple[Gate, ...]:
        """All gates of a task, with unique ids.

        Raises:
            TaskFileError: A gates.yaml cannot be used.
        """
        from_files = [g for g in self._from_files(folder) if g.task == task.name]
        metrics = {metric.name for metric in task.metrics}
        given = [
            gate
            for gate in self._given
            if gate.task == task.name or (not gate.task and gate.metric in metrics)
        ]
        self._used.update(id(gate) for gate in (*from_files, *given))
        mine = (replace(gate, task=task.name) for gate in given)
        return with_unique_ids([*task.gates, *from_files, *mine])

    def _from_files(self, folder: Path) -> Iterator[Gate]:
        for place in (folder, *folder.parents):
            for name in FILE_NAMES:
                path = place / name
                if path not in self._files:
                    self._files[path] = _load(path)
                yield from self._files[path]
            if place == self._root:
                return

    def check(self, tasks: Iterable[Task], whole: Sequence[Path]) -> None:
        """Refuse gates that no task answers for.

        Args:
            tasks: All tasks of the session.
            whole: Folders that were collected whole: there, a gates.yaml that names a
                task that does not exist is a mistake.

        Raises:
            pytest.UsageError: A gate names a task or a metric that does not exist.
        """
        known = list(tasks)
        names = [task.name for task in known]
        problems = [
            f"{gate.source}: {_nowhere(gate, known)}"
            for gate in self._given
            if id(gate) not in self._used
        ]
        for path, gates in self._files.items():
            if any(path.parent.is_relative_to(folder) for folder in whole):
                problems += [
                    f"{gate.source}: no task called {gate.task!r}"
                    f"{did_you_mean(gate.task, names)}"
                    for gate in gates
                    if gate.task not in names
                ]
        if problems:
            raise pytest.UsageError("\n".join(problems))


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
            whats = _metric_faults(gate, task)
        problems += [Problem(what, gate.source) for what in whats]
    return problems


def _metric_faults(gate: Gate, task: Task) -> list[str]:
    named = [metric for metric in task.metrics if metric.name == gate.metric]
    if not named:
        hint = did_you_mean(gate.metric, [metric.name for metric in task.metrics])
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
    share = named[0].is_mean and gate.metric in _SHARES
    return [
        f"{gate.metric} lies between 0 and 1, so {bound} says nothing"
        + (f"; did you mean {bound.op} {bound.value}%?" if bound.value <= 100 else "")
        for bound in gate.bounds
        if share and not 0 <= bound.value <= 1
    ]


def _nowhere(gate: Gate, tasks: Sequence[Task]) -> str:
    if gate.task:
        names = [task.name for task in tasks]
        return f"no task called {gate.task!r}{did_you_mean(gate.task, names)}"
    metrics = sorted({metric.name for task in tasks for metric in task.metrics})
    hint = did_you_mean(gate.metric, metrics) or f"; known: {', '.join(metrics)}"
    return f"no task has a metric called {gate.metric!r}{hint}"


def _load(path: Path) -> tuple[Gate, ...]:
    if not path.is_file():
        return ()
    from pytest_evals.frontends.gates_file import load_gates

    gates = load_gates(path)
    lost = [gate for gate in gates if not gate.task]
    if lost:
        raise TaskFileError(
            Problem("the gate names no task", gate.source, "write TASK/METRIC >= …")
            for gate in lost
        )
    return gates
