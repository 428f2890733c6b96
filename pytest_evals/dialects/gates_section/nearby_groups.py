"""Checks group files next to or above a session's tasks that are not part of the
session.

Their gates are not evaluated, but an invalid one should be reported before the group is
run. Group files without gates are not loaded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from pytest_evals.core.task import Group, Task
from pytest_evals.dialects.detect import YAML_SUFFIXES, is_group, raw_of
from pytest_evals.dialects.gates_section.gate_faults import GateFaults, group_faults
from pytest_evals.dialects.gates_section.suite_gates import SuiteGates
from pytest_evals.errors import Place, Problem, TaskFileError


def nearby_group_faults(
    tasks: Mapping[str, Task],
    read: Collection[Path],
    gates: SuiteGates,
    load: Callable[[Path], Sequence[Task | Group]],
    *,
    hooked: Callable[[Path], bool],
    is_chosen: bool,
) -> GateFaults:
    """Return the errors of such groups' gates and, as warnings, the groups of these
    tasks whose gates are not evaluated. ``hooked``: whether hooks may add metrics to
    tasks of a folder, or change scores. ``is_chosen``: whether single tasks or
    documents are selected: then groups without an error are not mentioned."""
    result = GateFaults([], [])
    for path in _group_files(tasks.values(), read, gates):
        try:
            loaded = load(path)
            faults, mentions = _faults(loaded, tasks, gates, hooked=hooked)
            related = bool(mentions)
            result.warnings.extend([] if is_chosen else mentions)
        except TaskFileError as error:
            faults = GateFaults([*error.problems], [])
            names = (n for one in tasks.values() for n in (one.name, *one.tags))
            related = _mentions(raw_of(path), names)
        result.warnings.extend(faults.warnings)
        (result.problems if related else result.warnings).extend(faults.problems)
    return result


def _faults(
    loaded: Sequence[Task | Group],
    tasks: Mapping[str, Task],
    gates: SuiteGates,
    *,
    hooked: Callable[[Path], bool],
) -> tuple[GateFaults, list[Problem]]:
    """Return the errors of a file, and a warning for each group with gates and with
    tasks of the session."""
    result, mentions = GateFaults([], []), []
    for group in loaded:
        if not isinstance(group, Group):
            continue
        folder = group.source.path.absolute().parent
        all_gates = gates.of(group, group.gates, folder)
        result.add(group_faults(all_gates, group, hooked=hooked(folder)))
        if all_gates and any(task.name in tasks for task in group.tasks()):
            ids = ", ".join(gate.id for gate in all_gates)
            message = f"group {group.name!r} was not collected, so its gates are not "
            message += f"evaluated: {ids}"
            fix = f"run {Place(group.source.path)} or its folder as well"
            mentions.append(Problem(message, group.source, fix))
    return result, mentions


def _group_files(
    tasks: Collection[Task], read: Collection[Path], gates: SuiteGates
) -> Iterator[Path]:
    """Yield files of groups with gates in the folders of these tasks and above."""
    folders = dict.fromkeys(
        folder
        for task in tasks
        for folder in gates.folders(task.source.path.absolute().parent)
    )
    for folder in folders:
        for path in sorted(folder.glob("*.y*ml")):
            if path not in read and path.suffix in YAML_SUFFIXES:
                raw = raw_of(path)
                if is_group(raw) and (b"gates" in raw or _mentions(raw, gates.names())):
                    yield path


def _mentions(raw: bytes, names: Iterable[str]) -> bool:
    return any(
        re.search(rb"(?<![\w-])%s(?![\w-])" % re.escape(name.encode()), raw)
        for name in names
    )
