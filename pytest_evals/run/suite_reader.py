"""Read the sources of ``evaluate()`` into a suite."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from pytest_evals.core.node_names import file_id
from pytest_evals.core.task import Group, Task, TaskOptions
from pytest_evals.dialects.gates_section.nearby_groups import nearby_group_faults
from pytest_evals.dialects.gates_section.suite_gates import SuiteGates
from pytest_evals.dialects.generative_choices import with_choices
from pytest_evals.dialects.native.python import Eval
from pytest_evals.dialects.readers import (
    ignored_files,
    is_skipped,
    load_file,
    load_folder,
    load_group,
)
from pytest_evals.dialects.task_index.index import Scanner
from pytest_evals.dialects.task_index.lookup import SuiteNames, TaskLookup
from pytest_evals.errors import OptionError, Problem, TaskFileError
from pytest_evals.run.selection import Selection
from pytest_evals.run.suite import Suite

Source = str | Path | Task | Group | Eval
"""A file, a folder, a task or group that was loaded, or an eval in Python."""
Loader = Callable[[Path], Sequence[Task | Group] | None]
"""Reads a file; ``None`` for a file of another kind."""


def read_suite(
    sources: Sequence[Source],
    options: TaskOptions,
    gates: SuiteGates,
    load: Loader | None,
    *,
    adds_metrics: bool,
) -> Suite:
    """Read all sources, and check them before any request is sent.

    Raises:
        TaskFileError: A file, a dataset or a gate in a file cannot be used.
        OptionError: A gate is invalid, or belongs to no task.
    """
    here = Path.cwd()
    selection = Selection(also=options.takes)
    suite = Suite(
        here, gates, selection, hooked=lambda folder: adds_metrics, raises=False
    )
    library = options.library
    if not isinstance(library, TaskLookup):
        library = TaskLookup(here, scanner=Scanner(skips=is_skipped))
    task_options = replace(options, takes=selection.may_take)
    loaded = [one for source in sources for one in _loaded(source, task_options, load)]
    for one in with_choices(loaded, task_options):
        _add(suite, one, here)
    faults = nearby_group_faults(
        {run.task.name: run.task for run in suite.tasks.values()},
        {run.place.path.absolute() for run in suite.all()},
        gates,
        partial(load_group, options=options),
        hooked=lambda folder: adds_metrics,
        is_chosen=any(isinstance(source, Task | Group | Eval) for source in sources),
    )
    problems = [*suite.gate_faults, *faults.problems]
    if problems:
        raise TaskFileError(problems)
    tasks = [run.task for run in suite.tasks.values()]
    groups = [run.group for run in suite.groups.values()]
    names = SuiteNames(library, is_skipped, has_hooks=load is not None)
    unanswered = gates.unmatched(tasks, groups, names, selection.offered)
    if unanswered.problems:
        raise OptionError("\n".join(map(str, unanswered.problems)))
    suite.warn(map(str, (*faults.warnings, *unanswered.warnings)))
    paths = (Path(one).absolute() for one in sources if isinstance(one, str | Path))
    ignored = [lost for one in paths if one.is_dir() for lost in ignored_files(one)]
    if errors := [lost.problem for lost in ignored if lost.is_error]:
        raise TaskFileError(errors)
    suite.warn(str(lost.problem) for lost in ignored)
    return suite


def _loaded(
    source: Source, options: TaskOptions, load: Loader | None
) -> Iterable[Task | Group]:
    if isinstance(source, Task | Group):
        return [source]
    if isinstance(source, Eval):
        return [source.task(options)]
    path = Path(source).absolute()
    if options.library is None:
        root = path if os.path.isdir(path) else path.parent
        options = replace(options, library=TaskLookup(root))
    if os.path.isdir(path):
        return load_folder(path, options, load or (lambda path: None))
    tasks = load(path) if load is not None and os.path.isfile(path) else None
    return load_file(path, options) if tasks is None else tasks


def _add(suite: Suite, one: Task | Group, here: Path) -> None:
    existing = suite.tasks.get(one.name)
    if isinstance(one, Task) and existing is not None and existing.task is not one:
        is_near = existing.path.parent == one.source.path.parent
        if existing.task.config == one.config and is_near:
            return
        if existing.place == one.source:
            text = f"there is another task called {one.name!r}, at {existing.place}"
            raise TaskFileError([Problem(text, one.source, "run one of them")])
    path = one.source.path
    suite.add([one], path, file_id(path, here))
