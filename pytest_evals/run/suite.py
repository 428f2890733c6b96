"""The tasks and groups of a run, each with its node id.

A name belongs to one task or one group: if files in several folders define it, each
name gets the folder of its file. A group's members are run once, even if several files
and groups name them. A member that the group changes is run as part of the group, and
the file's own task is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from pytest_evals.core.gate import Gate
from pytest_evals.core.node_names import (
    document_start,
    file_id,
    gate_name,
    names_by_folder,
    node_label,
)
from pytest_evals.core.record import Record
from pytest_evals.core.result import TaskResult
from pytest_evals.core.task import Group, Task
from pytest_evals.dialects.gates_section.gate_faults import (
    GateFaults,
    group_faults,
    task_faults,
)
from pytest_evals.dialects.gates_section.suite_gates import SuiteGates
from pytest_evals.errors import Place, Problem, TaskFileError
from pytest_evals.gates.documents import Required, asking_for, required_by
from pytest_evals.run.selection import Selection
from pytest_evals.run.task_names import check_names, named, twice, with_member
from pytest_evals.store.history import EarlierRun, with_names_of


@dataclass(slots=True, kw_only=True)
class _Node:
    path: Path  # the file of its node
    nodeid: str
    changed: bool  # whether a group has changed it
    gates: tuple[Gate, ...]
    model: str = ""  # the name of its model, if several are tested; part of node ids
    variant: str = ""  # the variant of its eval, if that has several

    @property
    def label(self) -> str:
        """Its part of the brackets of node ids."""
        return node_label(self.model, self.variant)

    @property
    def name(self) -> str:
        """Last part of its node id, without the groups around it."""
        return self.nodeid.rpartition("::")[2]

    def gate_id(self, gate: Gate) -> str:
        """Node id of one of its gates."""
        return f"{self.nodeid}::{gate_name(gate.id, self.label)}"


@dataclass(slots=True, kw_only=True)
class TaskRun(_Node):
    """A task of a run with its records."""

    task: Task
    ids: Sequence[str]
    indices: Sequence[int]
    n_total: int  # documents before a limit or sample
    records: dict[int, Record] = field(default_factory=dict)
    worst: dict[str, list[float]] = field(default_factory=dict)
    """Metric → values of the documents that are kept completely."""
    tied: list[str] = field(default_factory=list)
    """Ids of documents with several best choices."""
    result: TaskResult | None = None

    def document_ids(self) -> list[str]:
        """Node ids of its documents, in order."""
        start = document_start(self.nodeid, self.label)
        return [f"{start}{id_}]" for id_ in self.ids]

    @property
    def place(self) -> Place:
        """Where the task is defined."""
        return self.task.source


@dataclass(slots=True, kw_only=True)
class GroupRun(_Node):
    """A group of this session."""

    group: Group

    @property
    def place(self) -> Place:
        """Where the group is defined."""
        return self.group.source


class Suite:
    """All tasks and groups, by name, in collection order."""

    def __init__(
        self,
        root: Path,
        gates: SuiteGates,
        selection: Selection,
        *,
        hooked: Callable[[Path], bool],
        raises: bool,
        keeps_repeats: Callable[[], bool] = lambda: False,
    ) -> None:
        """Create an empty suite.

        Args:
            gates: Gates outside of the files of tasks and groups.
            hooked: Whether hooks may add metrics or change scores in a folder.
            raises: Whether faults of gates are errors of their file, or are collected.
            keeps_repeats: Returns whether tests may need the value of each of several
                answers; called when collection has ended.
        """
        self.model = ""
        """Name of the tested model, if there are several; set before tasks are
        added."""
        self._root, self._gates, self._selection = root, gates, selection
        self._hooked, self._raises = hooked, raises
        self.gate_faults: dict[Problem, None] = {}
        """Faults of gates, if they are collected."""
        self.tasks: dict[str, TaskRun] = {}
        self.groups: dict[str, GroupRun] = {}
        self.ambiguous: set[str] = set()
        """Names that several folders define, which are qualified."""
        self._renamed: dict[int, tuple[Task, TaskRun]] = {}
        self._warnings: list[str] = []
        self._keeps_repeats = keeps_repeats

    def add(
        self, tasks: Iterable[Task | Group], path: Path, nodeid: str
    ) -> list[TaskRun | GroupRun]:
        """Add the selected tasks and groups of a file. Raises ``TaskFileError`` if a
        dataset or a gate is invalid, or a name is defined twice."""
        runs: list[TaskRun | GroupRun] = []
        for one in tasks:
            node = f"{nodeid}::{_node_name(one)}"
            by_folder = names_by_folder(_node_name(one), node)
            if isinstance(one, Group):
                if self._selection.takes([one.name], by_folder):
                    run = self._group(one, path, node, changed=False)
                    self._refuse_doubles(run)
                    runs.append(run)
            elif self._selection.takes((one.node_name, *one.tags), by_folder):
                runs.append(self._task(one, path, node, changed=False))
        return runs

    def _task(self, task: Task, path: Path, nodeid: str, *, changed: bool) -> TaskRun:
        name = self._name(task, nodeid, changed)
        existing = self.tasks.get(name)
        if existing is not None and not self._gives_way(
            existing, task, nodeid, changed
        ):
            return existing
        if name in self.groups:
            raise TaskFileError([twice(task, self.groups[name].place, is_group=True)])
        gates, ids = self._gates_and_ids(task, path.parent, nodeid)
        run = TaskRun(
            task=asking_for(task, gates),
            path=path,
            nodeid=nodeid,
            changed=changed,
            ids=ids,
            indices=task.rows.indices(),
            n_total=task.rows.total(),
            gates=gates,
            model=self.model,
            variant=task.variant,
        )
        self.tasks[name] = run
        self._give_name(run, task.name, name)
        return run

    def _name(self, one: Task | Group, nodeid: str, changed: bool) -> str:
        """The name of a task or group in this session. If another folder has defined
        it too, both get their folders."""
        name, *_, complete = names_by_folder(one.name, nodeid)
        other = self.tasks.get(name) or self.groups.get(name)
        if other is not None and name not in self.ambiguous:
            theirs = names_by_folder(name, other.nodeid)[-1]
            if theirs != complete and other.changed == changed:
                self.qualify(name)
        if name in self.ambiguous:
            self._rename_members(name, one.source, complete)
            return complete
        return name

    def qualify(self, name: str) -> None:
        """Add its folder to the name of each task and group with this name, now and
        later."""
        self.ambiguous.add(name)
        for runs in (self.tasks, self.groups):
            if name not in runs:
                continue
            run = runs[name]
            complete = names_by_folder(name, run.nodeid)[-1]
            self._give_name(run, name, complete)
            renamed = {complete if n == name else n: r for n, r in runs.items()}
            runs.clear()
            cast("dict[str, Any]", runs).update(renamed)

    def _give_name(self, run: TaskRun | GroupRun, old: str, name: str) -> None:
        """Rename a task or group, its gates, and the member of its groups."""
        if name == old:
            return
        if isinstance(run, TaskRun):
            self._renamed[id(run.task)] = (run.task, run)
            run.task = named(run.task, name)
        else:
            run.group = named(run.group, name)
        run.gates = tuple(replace(gate, task=name) for gate in run.gates)
        self._rename_members(old, run.place, name)

    def _rename_members(self, old: str, place: Place, name: str) -> None:
        for run in self.groups.values():
            run.group = with_member(run.group, old, place, name)

    def current(self, task: Task) -> Task:
        """A task under its name in this session, which another file may have changed
        since it was added."""
        while id(task) in self._renamed:
            task = self._renamed[id(task)][1].task
        return task

    def _gates_and_ids(
        self, task: Task, folder: Path, nodeid: str
    ) -> tuple[tuple[Gate, ...], Sequence[str]]:
        """The gates of a task and the ids of its documents; faults of a gates.yaml do
        not hide the task's own."""
        try:
            names = [*names_by_folder(task.name, nodeid)]
            names += names_by_folder(task.node_name, nodeid)
            gates = self._gates.of(task, task.gates, folder, names, task.metrics)
        except TaskFileError as error:
            try:
                self._ids(task, task.gates, folder)
            except TaskFileError as group_error:
                raise TaskFileError([*error.problems, *group_error.problems]) from error
            raise
        return gates, self._ids(task, gates, folder)

    def _ids(self, task: Task, gates: Sequence[Gate], folder: Path) -> Sequence[str]:
        """Ids of a task's documents; checks its gates, even without data."""
        document_ids: Sequence[str] = ()
        limited, unreached = True, None
        try:
            document_ids = task.rows.ids()
            check_names(task, document_ids)
            limited = len(document_ids) < task.rows.total()
        except TaskFileError as error:
            if not error.is_unreachable:
                raise
            unreached = error
        if not self._hooked(folder):
            faults = task_faults(gates, task, set(document_ids), limited=limited)
            self._keep(task, faults, unreached)
        if unreached is not None:
            raise unreached
        return document_ids

    def _keep(
        self, owner: Task | Group, faults: GateFaults, also: TaskFileError | None = None
    ) -> None:
        self.warn(f"{owner.name}: {one}" for one in faults.warnings)
        if faults.problems and self._raises:
            raise TaskFileError([*faults.problems, *(also.problems if also else ())])
        self.gate_faults |= dict.fromkeys(faults.problems)

    def _gives_way(self, existing: TaskRun, task: Task, nodeid: str, new: bool) -> bool:
        """Whether the task that already has this name is replaced."""
        if existing.nodeid == nodeid and existing.task.source == task.source:
            return False
        if not existing.changed and not new:
            raise TaskFileError([twice(task, existing.place, is_group=False)])
        if existing.task.config == task.config:
            return False
        if existing.changed and new:
            raise TaskFileError([twice(task, existing.place, is_group=False)])
        mine, other = (task, existing.task) if new else (existing.task, task)
        self._warnings.append(
            f"{other.name}: {Place(other.source.path)} runs only as a member of a "
            f"group, which changes the task ({mine.source})"
        )
        return new

    def _group(
        self, group: Group, path: Path, nodeid: str, *, changed: bool
    ) -> GroupRun:
        name = self._name(group, nodeid, changed)
        existing = self.groups.get(name)
        if existing is not None:
            if existing.nodeid == nodeid and existing.place == group.source:
                return existing
            if existing.changed == changed:
                raise TaskFileError([twice(group, existing.place, is_group=True)])
            if existing.changed:
                return existing
        if name in self.tasks:
            raise TaskFileError([twice(group, self.tasks[name].place, is_group=False)])
        names = names_by_folder(group.name, nodeid)
        gates = self._gates.of(group, group.gates, path.parent, names)
        hooked = self._hooked(path.parent)
        self._keep(group, group_faults(gates, group, hooked=hooked))
        run = GroupRun(
            group=group,
            path=path,
            nodeid=nodeid,
            changed=changed,
            gates=gates,
            model=self.model,
        )
        self.groups[name] = run
        self._give_name(run, group.name, name)
        try:
            self._children(group, run)
        except TaskFileError:
            del self.groups[run.group.name]
            raise
        return run

    def _children(self, group: Group, run: GroupRun) -> None:
        faults = []
        for child in group.children:
            try:
                self._child(child, group.name, run)
            except TaskFileError as fault:
                faults.append(fault)
        if faults:
            problems = (problem for one in faults for problem in one.problems)
            raise TaskFileError(dict.fromkeys(problems))

    def _child(self, child: Task | Group, group: str, parent: GroupRun) -> None:
        path = child.source.path
        here = path == parent.path
        if here:
            short = child.name.removeprefix(f"{group}::")
            nodeid = f"{parent.nodeid}::{short}"
        else:
            nodeid = f"{file_id(path, self._root)}::{_node_name(child)}"
        if isinstance(child, Group):
            self._group(child, path, nodeid, changed=here)
        else:
            self._task(child, path, nodeid, changed=here)

    def _refuse_doubles(self, run: GroupRun) -> None:
        """Reject a task that two names of the command line select, as lm-eval does
        (0.4.13, ``tasks/manager.py``); two patterns may share tasks."""
        required = self._selection.literal
        if run.group.name not in required:
            return
        for task in run.group.tasks():
            others = {task.name, *task.tags, *self._around(task.name)} & required
            for other in sorted(others - {run.group.name}):
                raise TaskFileError(
                    [
                        Problem(
                            f"--evals-tasks asks for task {task.name!r} twice: as "
                            f"{other!r} and in group {run.group.name!r}",
                            run.place,
                            "leave one of the two out",
                        )
                    ]
                )

    def _around(self, name: str) -> set[str]:
        return {
            run.group.name
            for run in self.groups.values()
            if any(one.name == name for one in run.group.tasks())
        }

    def order(self, names: Iterable[str]) -> None:
        """Move the tasks with these names to the front, in their order."""
        first = {name: self.tasks[name] for name in names if name in self.tasks}
        ordered = {**first, **self.tasks}
        self.tasks.clear()
        self.tasks.update(ordered)

    def warn(self, texts: Iterable[str]) -> None:
        """Add warnings, without repetitions."""
        self._warnings += [text for text in texts if text not in self._warnings]

    def warnings(self) -> list[str]:
        """Warnings about groups, and about tasks that they change."""
        return self._warnings + [
            f"{run.group.name}: {text}"
            for run in self.groups.values()
            for text in run.group.warnings
        ]

    def holds(self, run: TaskRun | GroupRun) -> bool:
        """Whether the name still belongs to this task."""
        if isinstance(run, TaskRun):
            return self.tasks.get(run.task.name) is run
        return self.groups.get(run.group.name) is run

    def all(self) -> Iterator[TaskRun | GroupRun]:
        """Tasks, then groups."""
        yield from self.tasks.values()
        yield from self.groups.values()

    def node_ids(self) -> dict[str, str]:
        """Node id of each task and group, by its name."""
        tasks = {
            run.task.name: f"{run.nodeid}[{run.variant}]" if run.variant else run.nodeid
            for run in self.tasks.values()
        }
        return tasks | {run.group.name: run.nodeid for run in self.groups.values()}

    def name_of(self, text: str) -> str:
        """The name of the only task or group with this name or with its folders in
        front; else the text."""
        if text in self.tasks or text in self.groups:
            return text
        found = [
            name
            for name, nodeid in self.node_ids().items()
            if text in names_by_folder(nodeid.rpartition("::")[2], nodeid)
        ]
        return found[0] if len(found) == 1 else text

    def named(self, run: EarlierRun) -> EarlierRun:
        """A stored run with the names of this session, by node id; a name of another
        file that still exists is not used."""
        ids = {*self.node_ids().values()}

        def is_other(nodeid: str) -> bool:
            file = self._root / nodeid.partition("::")[0]
            return nodeid not in ids and file.is_file()

        return with_names_of(run, self.node_ids(), is_other)

    def group_names(self) -> list[str]:
        """Names of the groups, each before those that it holds."""
        groups = [run.group for run in self.groups.values()]
        inner = {g.name for one in groups for g in one.groups() if g is not one}
        roots = [one for one in groups if one.name not in inner]
        ordered = dict.fromkeys(g.name for root in roots for g in root.groups())
        return [name for name in ordered if name in self.groups]

    def with_documents(self, ids: Iterable[str] | None) -> list[Task]:
        """The tasks that have documents among these node ids; all for ``None``."""
        runs = self.tasks.values()
        if ids is None:
            return [run.task for run in runs]
        if any(run.label for run in runs):
            known = {*ids}
            return [r.task for r in runs if not known.isdisjoint(r.document_ids())]
        starts = {one.partition("[")[0] for one in ids}
        return [run.task for run in runs if run.nodeid in starts]

    def positions(self, ids: Iterable[str]) -> Iterator[tuple[Task, int]]:
        """The documents among these node ids: task, and position in its dataset."""
        indices = {
            nodeid: (run.task, index)
            for run in self.tasks.values()
            for nodeid, index in zip(run.document_ids(), run.indices, strict=True)
        }
        return (indices[nodeid] for nodeid in ids if nodeid in indices)

    def required(self, name: str) -> Required:
        """Return what the gates of a task, and of its groups, need of its documents."""
        gates_of_task = self.tasks[name].gates
        around = (self.groups[group].gates for group in self._around(name))
        every = (gate for gates in (gates_of_task, *around) for gate in gates)
        return required_by(every, every_count=self._keeps_repeats())

    def variant_of(self, name: str) -> dict[str, tuple[str, ...]]:
        """The variant of a task as a condition of gates, see
        :func:`~pytest_evals.gates.check.left_out`; nothing for a group."""
        run = self.tasks.get(name)
        return {"variant": (run.variant,)} if run and run.variant else {}

    def tasks_of(self, name: str) -> set[str]:
        """Names of the tasks of a task or a group."""
        run = self.groups.get(name)
        return {task.name for task in run.group.tasks()} if run else {name}


def _node_name(one: Task | Group) -> str:
    return one.node_name if isinstance(one, Task) else one.name
