"""Collects the gates of a task or group: its own, those of gates.yaml files next to or
above its file, and those of the command line."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from pytest_evals.core.gate import Gate
from pytest_evals.core.metric import Metric
from pytest_evals.core.reference import MIN_OVERLAP
from pytest_evals.core.task import Group, Task
from pytest_evals.data.calls import collecting
from pytest_evals.dialects.detect import GATES_FILES
from pytest_evals.dialects.gates_section.gate_faults import GateFaults
from pytest_evals.dialects.task_index.lookup import Lookup, SuiteNames
from pytest_evals.dialects.yaml_reader.section import Section
from pytest_evals.dialects.yaml_reader.yaml_file import YamlParser, bytes_of
from pytest_evals.errors import Place, Problem, TaskFileError, suggestion, unknown_name
from pytest_evals.gates.read.entry import read_defaults, read_gate
from pytest_evals.gates.read.text import with_unique_ids
from pytest_evals.gates.run_metrics import RUN_METRICS, run_metrics_of


class SuiteGates:
    """All gates outside the files of tasks and groups."""

    def __init__(
        self,
        root: Path,
        given: Sequence[Gate],
        measured: Callable[[Gate], float | None],
        *,
        is_release: bool = False,
        min_overlap: float = MIN_OVERLAP,
    ) -> None:
        """Create the collection; gates files are read when a task is. ``root``: folder
        above which no files are searched. ``measured``: returns the measured flip rate
        of a gate's answers between two runs, or ``None``. ``is_release``: whether a
        threshold without ``over`` applies to the population."""
        self._is_release, self._min_overlap = is_release, min_overlap
        self._root, self._measured = root, measured
        self._given = given
        self._files: dict[Path, tuple[Gate, ...]] = {}
        self._owners: dict[int, dict[Place, str]] = {}
        """Id of a gate → places of the tasks and groups that it applies to."""

    def of(
        self,
        owner: Task | Group,
        task_gates: Iterable[Gate],
        folder: Path,
        by_folder: Sequence[str] = (),
        metrics: Iterable[Metric] = (),
    ) -> tuple[Gate, ...]:
        """Return all gates of a task or group, with unique ids. ``folder``: folder
        whose gates files are read, with those of all folders above it. ``by_folder``:
        its name with folders in front, which gates may use. ``metrics``: metrics to
        which a gate without a task can apply. Raises TaskFileError if a gates.yaml is
        invalid."""
        file = folder / owner.source.path.name
        known = {owner.name, *by_folder}
        names = {metric.name for metric in metrics}
        names.update(run_metrics_of(owner) if isinstance(owner, Task) else ())
        others = [g for g in self._from_files(file) if g.task in known]
        others += [
            gate
            for gate in self._given
            if gate.task in known or (not gate.task and gate.metric in names)
        ]
        for gate in others:
            self._owners.setdefault(id(gate), {})[owner.source] = owner.name
        mine = (replace(gate, task=owner.name) for gate in others)
        gates = with_unique_ids([*task_gates, *mine])
        return tuple(map(self.with_session_settings, gates))

    def with_session_settings(self, gate: Gate) -> Gate:
        """Return the gate with the session's settings in place of missing ones."""
        if self._is_release and gate.bounds and not gate.names_target:
            gate = replace(gate, over="population")
        if gate.baseline and gate.min_overlap is None:
            gate = replace(gate, min_overlap=self._min_overlap)
        return self._with_flip_rate(gate)

    def _with_flip_rate(self, gate: Gate) -> Gate:
        """Return the gate with the measured flip rate, for verdicts over further runs
        and for the probability that a rerun reverses others. It is the rate of the
        answers that the task's filters select."""
        needs_rate = gate.over == "benchmark" or (
            gate.over == "run" and bool(gate.bounds)
        )
        needs_rate = needs_rate and gate.measured and gate.flip_rate is None
        needs_rate = needs_rate and not gate.reducer
        return replace(gate, flip_rate=self._measured(gate)) if needs_rate else gate

    def names(self) -> Iterator[str]:
        """Yield the names of tasks and groups in the gates files that were read."""
        yield from (gate.task for gates in self._files.values() for gate in gates)

    def files(self) -> Iterator[Path]:
        """Yield the gates files that were read."""
        yield from (path for path, gates in self._files.items() if gates)

    def folders(self, folder: Path) -> Iterator[Path]:
        """Yield a folder and those above it, up to the root."""
        yield folder
        if folder.is_relative_to(self._root):
            for place in folder.parents:
                if not place.is_relative_to(self._root):
                    return
                yield place

    def _from_files(self, file: Path) -> Iterator[Gate]:
        seen = set[Path]()
        for place in self._places(file):
            for name in GATES_FILES:
                path = place / name
                if path not in self._files:
                    self._files[path] = _load(path)
                if self._files[path] and (real := path.resolve()) not in seen:
                    seen.add(real)
                    yield from self._files[path]

    def _places(self, file: Path) -> Iterator[Path]:
        """Yield the folders whose gates files apply to a file: its own and those above
        it; and the same for the target of each link in its path."""
        above = [*self._above(file)]
        yield from above
        for place in (file, *above):
            if place.is_symlink():
                yield from self._above(place.resolve())

    def _above(self, file: Path) -> Iterator[Path]:
        for place in file.parents:
            yield place
            if place == self._root:
                return

    def unmatched(
        self,
        tasks: Iterable[Task],
        groups: Iterable[Group],
        names: SuiteNames,
        left_out: Collection[str] = (),
    ) -> GateFaults:
        """Return errors for gates that match no task or group of the session. A task
        that a gates.yaml names may not be part of this session. A name that is not
        defined in its folder or below is an error in any session. ``left_out``: names
        in the files of these tasks that were not selected."""
        known = list(tasks)
        owners: list[Task | Group] = [*known, *groups]
        sources = {one.name: Place(one.source.path) for one in owners}
        names_now = {one.source: one.name for one in owners}
        read = {task.source.path.absolute() for task in known}
        faults = GateFaults([], [])
        for gate in (*self._given, *chain.from_iterable(self._files.values())):
            faults.problems.extend(self._ambiguous(gate, names_now))
        for gate in self._given:
            if id(gate) not in self._owners:
                message = _no_match(gate, known, [*sources])
                faults.problems.append(Problem(message, gate.source))
        for path, gates in self._files.items():
            for gate in gates:
                if id(gate) in self._owners:
                    continue
                if gate.task in sources or gate.task not in left_out:
                    place = names.look_up(gate.task, path, read)
                    _add(gate, sources, place, faults)
        return faults

    def _ambiguous(self, gate: Gate, names: Mapping[Place, str]) -> Iterator[Problem]:
        """Yield the error of a gate that names tasks of several folders. ``names``:
        place of each task and group → its name in this session."""
        owners = self._owners.get(id(gate), {})
        found = [
            names[at] for at, name in owners.items() if names.get(at, name) != name
        ]
        if gate.task and len(found) > 1:
            message = f"{len(found)} tasks are called {gate.task!r}: {', '.join(found)}"
            yield Problem(message, gate.source, f"name one of them: {found[0]}")


def _add(
    gate: Gate, sources: Mapping[str, Place], place: Lookup, faults: GateFaults
) -> None:
    name, fix = gate.task, ""
    if place.is_below:
        return
    if place.unread is not None:
        message = (
            f"the task {name!r} is not collected: {place.unread} is not a complete "
        )
        message += "task file"
        fix = "add its missing keys: rows or dataset, or for lm-eval dataset_path"
    elif elsewhere := place.elsewhere or sources.get(name):
        message = (
            f"a gates file is for tasks in its folder and below, and {name!r} is in "
        )
        message += str(elsewhere)
        fix = "move the gate to that file or to a gates.yaml above it; --evals-gate "
        fix += "takes gates of any task"
    elif place.members:
        message = f"{name!r} is a tag, which has no numbers; tasks with this tag: "
        message += ", ".join(place.members)
    elif place.maybe:
        message = f"unknown task {name!r}; it may be among {place.maybe}"
        faults.warnings.append(Problem(message, gate.source))
        return
    else:
        message = unknown_name("task", name, dict.fromkeys([*sources, *place.names]))
    faults.problems.append(Problem(message, gate.source, fix))


def _no_match(gate: Gate, tasks: Sequence[Task], names: Sequence[str]) -> str:
    if gate.task:
        return unknown_name("task", gate.task, names)
    if "::" in gate.metric:
        return f"{gate.metric!r} is not TASK/METRIC; write / in place of ::"
    metrics = sorted({metric.name for task in tasks for metric in task.metrics})
    hint = suggestion(gate.metric, [*metrics, *RUN_METRICS])
    return f"unknown metric {gate.metric!r}{hint}"


def _load(path: Path) -> tuple[Gate, ...]:
    if not path.is_file():
        if not os.path.lexists(path):
            return ()
        message = "this is a folder, not a file with gates"
        if not path.is_dir():
            message = f"this is a link to {path.readlink()}, which does not exist"
        raise TaskFileError([Problem(message, Place(path))])
    gates = load_gates(path)
    without_task = [gate for gate in gates if not gate.task]
    if without_task:
        raise TaskFileError(
            Problem("the gate needs a task", gate.source, "write TASK/METRIC >= …")
            for gate in without_task
        )
    return gates


def load_gates(path: Path) -> tuple[Gate, ...]:
    """Return the gates of a file, in order."""
    problems: list[Problem] = []
    path = path.absolute()
    file = _Reader(path).read(bytes_of(path))
    top = Section(file, problems)
    given, defaults = top.take("defaults", dict, {}), dict[object, object]()
    with top.collecting("defaults"):
        defaults = read_defaults(given, lambda key: file.place("defaults", str(key)))
    entries = top.take("gates", list, [])
    if top.values.get("gates") is None:
        top.problem("gates", "the file has no gates", _ENTRY)
    gates: list[Gate] = []
    for number, entry in enumerate(entries):
        place = file.place("gates", number)
        with collecting(problems, place):
            gates.append(read_gate(entry, task="", source=place, defaults=defaults))
    top.close("a gates file")
    with top.collecting("gates"):
        gates = [*with_unique_ids(gates)]
    if problems:
        raise TaskFileError(problems)
    return tuple(gates)


_ENTRY = 'gates: ["my_task/acc >= 0.75"]'


class _Reader(YamlParser):
    """Reader of gates files. A duplicate key is an error, because no other program
    reads them."""

    example = _ENTRY

    def _duplicate_key(self, key: Any, here: Place) -> None:
        raise TaskFileError([Problem(f"{key!r} is a duplicate key", here)])
