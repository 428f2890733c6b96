"""What a script asks for: tasks and groups with all their gates, each name once."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from pytest_evals.core.gate import Gate
from pytest_evals.core.group import Group
from pytest_evals.core.task import Task, TaskOptions
from pytest_evals.dialects.gates_section.gate_faults import (
    GateFaults,
    group_faults,
    task_faults,
)
from pytest_evals.dialects.gates_section.near_groups import near_group_faults
from pytest_evals.dialects.gates_section.suite_gates import SuiteGates
from pytest_evals.dialects.readers import (
    load_file,
    load_folder,
    load_group,
    lost_files,
)
from pytest_evals.dialects.task_index.library import TaskLibrary
from pytest_evals.dialects.task_index.suite_names import SuiteNames
from pytest_evals.errors import OptionError, Problem, TaskFileError

__all__ = ["Source", "Suite", "read_suite"]

Source = str | Path | Task | Group
"""A file, a folder, or what a front end has made."""
Loader = Callable[[Path], Sequence[Task | Group] | None]
"""Reads a file, or gives ``None`` for one that is not its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """Tasks and groups, ready to run.

    Args:
        tasks: Each once, with all its gates.
        groups: Each before those that it holds, with all its gates.
        odd: What is odd about gates.
    """

    tasks: tuple[Task, ...]
    groups: tuple[Group, ...]
    odd: tuple[str, ...] = ()

    def gates(self) -> list[Gate]:
        """All gates: those of tasks, then those of groups."""
        of_tasks = [gate for task in self.tasks for gate in task.gates]
        return of_tasks + [gate for group in self.groups for gate in group.gates]

    def tasks_of(self, name: str) -> set[str]:
        """Names of the tasks that a task or a group is made of."""
        groups = (group for group in self.groups if group.name == name)
        found = {task.name for group in groups for task in group.tasks()}
        return found or {name}

    def warnings(self) -> Iterator[str]:
        """What is odd about them, as far as it is known."""
        for task in self.tasks:
            yield from (f"{task.name}: {text}" for text in task.warnings())
        for group in self.groups:
            yield from (f"{group.name}: {text}" for text in group.warnings)
        yield from self.odd


def read_suite(
    sources: Sequence[Source],
    options: TaskOptions,
    beside: SuiteGates,
    first: Loader,
    names: SuiteNames,
    *,
    hooked: bool,
) -> Suite:
    """Read all sources, and check what can be known before anything runs.

    Args:
        sources: What is asked for.
        options: What to change in every task.
        beside: Gates that stand outside of the files of tasks and groups.
        first: Sees each file before any front end.
        names: What else the suite defines.
        hooked: Whether hooks may add metrics or change scores.

    Raises:
        TaskFileError: A file, a dataset or a gate in a file cannot be used.
        OptionError: A gate means nothing, or no task answers for it.
    """
    offered: set[str] = set()

    def takes(these: Sequence[str]) -> bool:
        offered.update(these)
        return options.takes(these)

    asked = replace(options, takes=takes)
    found = [one for source in sources for one in _loaded(source, asked, first)]
    roots = [one for one in found if isinstance(one, Group)]
    groups = {group.name: group for root in roots for group in root.groups()}
    faults = GateFaults([], [])
    suite = Suite(
        tasks=tuple(
            _with_gates(task, beside, faults, hooked=hooked)
            for task in _each_once(found)
        ),
        groups=tuple(
            _group_with_gates(group, beside, faults, hooked=hooked)
            for group in groups.values()
        ),
    )
    by_name = {task.name: task for task in suite.tasks}
    sourced = [task.source for task in suite.tasks]
    sourced += [group.source for group in suite.groups]
    read = {place.path.absolute() for place in sourced}
    chosen = any(isinstance(source, Task | Group) for source in sources)
    load = partial(load_group, options=options)
    faults.add(
        near_group_faults(
            by_name, read, beside, load, hooked=lambda _: hooked, is_chosen=chosen
        )
    )
    if faults.problems:
        raise TaskFileError(faults.problems)
    unanswered = beside.unanswered(suite.tasks, suite.groups, names, offered)
    if unanswered.problems:
        raise OptionError("\n".join(map(str, unanswered.problems)))
    faults.add(unanswered)
    folders = [path for source in sources if (path := _folder(source)) is not None]
    faults.warnings.extend(lost for path in folders for lost in lost_files(path))
    return replace(suite, odd=tuple(map(str, faults.warnings)))


def _loaded(
    source: Source, options: TaskOptions, first: Loader
) -> Iterable[Task | Group]:
    if isinstance(source, Task | Group):
        return [source]
    path = Path(source).absolute()
    if options.library is None:
        root = path if os.path.isdir(path) else path.parent
        options = replace(options, library=TaskLibrary(root))
    if os.path.isdir(path):
        return load_folder(path, options, first)
    found = first(path) if os.path.isfile(path) else None
    return load_file(path, options) if found is None else found


def _folder(source: Source) -> Path | None:
    if isinstance(source, Task | Group):
        return None
    path = Path(source).absolute()
    return path if path.is_dir() else None


def _each_once(found: Iterable[Task | Group]) -> list[Task]:
    """All tasks; one that a group has changed takes the place of the file's own.

    Raises:
        TaskFileError: Two tasks have the same name and are not the same.
    """
    tasks: dict[str, tuple[Task, bool]] = {}
    for one in found:
        for task in one.tasks() if isinstance(one, Group) else (one,):
            changed = isinstance(one, Group) and _is_changed(task, one)
            known, was_changed = tasks.setdefault(task.name, (task, changed))
            if known.config == task.config:
                continue
            if changed == was_changed:
                what = f"there is another task called {task.name!r}, at {known.source}"
                raise TaskFileError([Problem(what, task.source, "run one of them")])
            if changed:
                tasks[task.name] = (task, True)
    return [task for task, _ in tasks.values()]


def _is_changed(task: Task, group: Group) -> bool:
    """Whether a task is as some group has it: then it stands in the group's file."""
    return task.source.path in {one.source.path for one in group.groups()}


def _with_gates(
    task: Task, beside: SuiteGates, faults: GateFaults, *, hooked: bool
) -> Task:
    folder = task.source.path.absolute().parent
    gates = beside.of(task, task.gates, folder, task.metrics)
    ids = task.rows.ids()
    limited = len(ids) < task.rows.total()
    if not hooked:
        faults.add(task_faults(gates, task, set(ids), limited=limited))
    return replace(task, gates=gates)


def _group_with_gates(
    group: Group, beside: SuiteGates, faults: GateFaults, *, hooked: bool
) -> Group:
    gates = beside.of(group, group.gates, group.source.path.absolute().parent)
    faults.add(group_faults(gates, group, hooked=hooked))
    return replace(group, gates=gates)
