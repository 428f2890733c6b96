"""The gates of a command line and of a gates file, and the tasks that they judge."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pytest_evals.core.gate import Gate
from pytest_evals.errors import (
    OptionError,
    Place,
    similar_file,
    suggestion,
    unknown_name,
)
from pytest_evals.gates.read.entry import COMPARED, read_expression, read_gate
from pytest_evals.gates.read.keys import MARGIN_KEYS
from pytest_evals.gates.run_metrics import RUN_METRICS
from pytest_evals.judge_command.columns import ColumnRun
from pytest_evals.store.history import EarlierRun

_ANY = "*"
"""The task of a gate without one, while it is parsed."""


@dataclass(frozen=True, slots=True)
class GivenGates:
    """The gates of a command.

    Args:
        gates: Those that are judged; the task is empty if the gate names none.
        left_out: Those with ``when``, which needs the model and machine of a run.
    """

    gates: Sequence[Gate]
    left_out: Sequence[Gate]

    def metrics(self) -> list[str]:
        """The names of their metrics, each once."""
        names = dict.fromkeys(gate.metric for gate in self.gates)
        return [name for name in names if name and name not in COMPARED]


def given_gates(
    texts: Sequence[str], file: Path | None, *, cluster: str = "", has_baseline: bool
) -> GivenGates:
    """The gates of arguments and of a gates file.

    Args:
        texts: Expressions such as ``acc >= 0.9``, or entries of ``gates:`` as JSON.
        file: A gates.yaml.
        cluster: Field of the rows by which documents depend on each other.
        has_baseline: Whether there are older results.

    Raises:
        OptionError: A text is invalid, or a gate needs a baseline that is missing.
        TaskFileError: An entry or the file is invalid.
    """
    gates = [_read(text, number, has_baseline) for number, text in enumerate(texts)]
    if file is not None:
        if not file.is_file():
            raise OptionError(
                f"{file}: no such file of gates{similar_file(file)}\n"
                "  fix: write a gate after the results: judge NEW 'acc >= 0.75'"
            )
        # Late, because it reads YAML, which most commands do not need.
        from pytest_evals.dialects.gates_section.suite_gates import load_gates

        gates += load_gates(file)
    if cluster:
        gates = [_clustered(gate, cluster) for gate in gates]
    for gate in gates:
        if gate.baseline and not has_baseline:
            raise OptionError(
                f"{gate.source}: the gate {gate.text} compares with a baseline\n"
                "  fix: --baseline OLD, a file or folder with older results"
            )
    judged = [gate for gate in gates if not gate.when]
    return GivenGates(judged, [gate for gate in gates if gate.when])


def _read(text: str, number: int, has_baseline: bool) -> Gate:
    source = Place(Path(f"gate {number + 1}"))
    if os.path.exists(text):
        raise OptionError(
            f"{text!r} is a path, not a gate\n"
            "  fix: give gates after the results; a gates file follows --gates, and "
            "older results follow --baseline"
        )
    if not text.lstrip().startswith("{"):
        return read_expression(text, source)
    try:
        entry = json.loads(text)
    except ValueError as error:
        raise OptionError(f"the gate is invalid JSON: {error}") from None
    if has_baseline and any(key in entry for key in MARGIN_KEYS):
        entry.setdefault("baseline", "baseline")
    task = str(entry.get("task") or _ANY)
    gate = read_gate(entry, task=task, source=source)
    return replace(gate, task="" if gate.task == _ANY else gate.task)


def _clustered(gate: Gate, cluster: str) -> Gate:
    if gate.cluster or gate.is_about_documents or gate.over == "benchmark":
        return gate
    return replace(gate, over="population", cluster=cluster)


def assigned(
    gates: Iterable[Gate], run: EarlierRun, groups: Mapping[str, Sequence[str]]
) -> list[Gate]:
    """The gates with their tasks or groups; one without a task applies to every task
    that has the metric. ``groups``: group → its tasks.

    Raises:
        OptionError: A gate's task, metric or filter is not in the results.
    """
    keys = {task: _keys(run, task) for task in run.tasks}
    for group, tasks in groups.items():
        keys[group] = dict.fromkeys(key for one in tasks for key in keys[one])
    return [gate for one in gates for gate in _assigned(one, keys, run.tasks)]


def _keys(run: EarlierRun, task: str) -> dict[tuple[str, str], None]:
    """Metrics and filters of a task's documents."""
    if isinstance(run, ColumnRun):
        return run.keys
    found: dict[tuple[str, str], None] = {}
    for row in run.all_rows(task):
        filter_ = str(row.get("filter"))
        found |= {(name, filter_): None for name in row.get("metrics") or ()}
    return found


def _assigned(
    gate: Gate, keys: Mapping[str, Mapping[tuple[str, str], None]], tasks: Sequence[str]
) -> Iterator[Gate]:
    if gate.task and gate.task not in keys:
        raise OptionError(_at(gate, unknown_name("task", gate.task, [*keys])))
    is_special = gate.metric in COMPARED or gate.metric in RUN_METRICS
    if is_special or gate.is_about_documents:
        yield from (replace(gate, task=one) for one in [gate.task] if one)
        if not gate.task:
            yield from (replace(gate, task=task) for task in tasks)
        return
    named = [gate.task] if gate.task else [*tasks]
    having = [one for one in named if any(m == gate.metric for m, _ in keys[one])]
    if not having:
        known = sorted({metric for one in named for metric, _ in keys[one]})
        message = f"no document has the metric {gate.metric!r}"
        raise OptionError(_at(gate, message + suggestion(gate.metric, known)))
    for task in having:
        _check_filter(gate, task, [f for m, f in keys[task] if m == gate.metric])
        yield replace(gate, task=task)


def _check_filter(gate: Gate, task: str, filters: Sequence[str]) -> None:
    if gate.filter and gate.filter not in filters:
        hint = suggestion(gate.filter, filters)
        message = f"unknown filter {gate.filter!r} of {task}/{gate.metric}{hint}"
        raise OptionError(_at(gate, message))
    if not gate.filter and len(filters) > 1:
        choices = ", ".join(f"{gate.metric},{one}" for one in filters)
        message = f"{task}/{gate.metric} has {len(filters)} filters"
        raise OptionError(_at(gate, f"{message}\n  fix: name one of {choices}"))


def _at(gate: Gate, message: str) -> str:
    return f"{gate.source}: {gate.text}: {message}"


def tasks_of_groups(run: EarlierRun) -> dict[str, list[str]]:
    """Group → its tasks, for groups whose tasks all have documents."""
    members: Any = run.results.get("group_subtasks")
    members = members if isinstance(members, Mapping) else {}

    def below(name: str, above: tuple[str, ...]) -> Iterator[str]:
        for child in members.get(name) or ():
            if child not in members:
                yield child
            elif child not in above:
                yield from below(child, (*above, name))

    found = {name: [*below(name, ())] for name in members}
    known = {*run.tasks}
    return {
        name: tasks
        for name, tasks in found.items()
        if tasks and known.issuperset(tasks)
    }
