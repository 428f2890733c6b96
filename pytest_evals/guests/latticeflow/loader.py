"""Loads the tasks of a task file or run file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from pytest_evals.core.task import SuiteFiles, Task, TaskOptions
from pytest_evals.dialects.yaml_reader.yaml_file import read_yaml
from pytest_evals.errors import Place, Problem, TaskFileError, did_you_mean, suggestion
from pytest_evals.guests.latticeflow.assembly import AssembledTask, assemble
from pytest_evals.guests.latticeflow.entities import Entities, Entity
from pytest_evals.guests.latticeflow.parameters import ParameterValue
from pytest_evals.guests.latticeflow.policy import gates_of, read_policy
from pytest_evals.guests.latticeflow.run_file import OPTION, TaskUse, read_run
from pytest_evals.guests.latticeflow.suite import EntitySuite
from pytest_evals.guests.latticeflow.task_file import TaskEntity, marker, read_task


def entities_of(path: Path, options: TaskOptions) -> Entities:
    """Return the index of the entities that a file can refer to."""
    root = Path(options.root) if options.root else path.absolute().parent
    files = options.files or SuiteFiles()
    known: dict[Path, Entities] = files.indexes.setdefault("latticeflow", {})
    if root not in known:
        base = Path(options.base) if options.base else None
        known[root] = Entities(
            root=root, base=base, skips=files.skips, parameters=files.parameters
        )
    return known[root]


def load_tasks(path: Path, options: TaskOptions) -> tuple[Task, ...]:
    """Return the tasks of a file that the options select. A task that a run file of the
    same session runs is not run separately."""
    known = entities_of(path, options)
    first, *listed = known.in_file(path) or _refuse_undeclared(path)
    suite = EntitySuite(entities=known, options=options)
    if first.kind == "task":
        collected = options.files.collected() if options.files else ()
        if path not in collected and _is_run(first, known, collected):
            return ()
        return tuple(_single_task(first, suite))
    if first.kind in ("run", "evaluation"):
        return tuple(_run(first, listed, suite))
    message = f"this file defines a {first.kind}, not a task"
    raise TaskFileError([Problem(message, first.place)])


def _refuse_undeclared(path: Path) -> NoReturn:
    """Raise for a file that looks like a task or run file but lacks its key."""
    file, known = read_yaml(path), ("definition", "evaluation", "task_specifications")
    message = (
        "a task needs a definition and a run file an evaluation; this file has neither"
    )
    for key in file.values:
        if hint := did_you_mean(str(key), known):
            raise TaskFileError([Problem(f"{message}: {key!r}{hint}", file.place(key))])
    raise TaskFileError([Problem(message, Place(path, 1))])


def _is_run(task: Entity, entities: Entities, places: Sequence[Path]) -> bool:
    """Return whether a run file lists this task, or an evaluation names its key."""
    for run in entities.runs(places):
        for one in entities.in_file(run.file.path):
            if one.kind == "task" and one.place == task.place:
                return True
        values: Any = run.file.values
        evaluation = values.get("evaluation") if run.kind == "run" else values
        is_mapping = isinstance(evaluation, dict)
        named = evaluation.get("task_specifications") if is_mapping else ()
        for one in named if isinstance(named, list) else ():
            if isinstance(one, dict) and one.get("task_key") == task.key:
                return True
    return False


def _single_task(entity: Entity, suite: EntitySuite) -> Iterator[Task]:
    tags = entity.file.values.get("tags")
    names = [str(tag) for tag in tags] if isinstance(tags, list) else []
    if not suite.options.takes([entity.key, *map(marker, names)]):
        return
    task = read_task(entity)
    declared = {one.key for one in task.parameters}
    suite.entities.parameters.update(declared)
    options = suite.options.parameters
    given = {key: ParameterValue(options[key], OPTION) for key in declared & {*options}}
    use = TaskUse(name=entity.key, place=entity.place, config=given)
    yield assemble(task, use, suite, _no_earlier).task


def _no_earlier(key: str, place: Place) -> NoReturn:
    message = f"unknown result {key!r}: this task is run on its own"
    fix = "name a specification of the same evaluation and run the run file"
    raise TaskFileError([Problem(message, place, fix)])


def _run(
    entity: Entity, listed: Sequence[Entity], suite: EntitySuite
) -> Iterator[Task]:
    """Yield the tasks of a run file: those of its evaluation with its policies as
    gates, or all listed tasks if it has no evaluation."""
    run = read_run(entity, suite.options.parameters)
    suite.entities.parameters.update(run.parameters)
    inner = replace(suite, listed=tuple(listed), secrets=run.secrets)
    _refuse_conflicting_secrets(run.secrets, listed)
    tasks = [one for one in listed if one.kind == "task"]
    policies = [read_policy(one) for one in listed if one.kind == "policy"]
    if run.specifications is None:
        for task in tasks:
            yield from _single_task(task, inner)
        return
    assembled = _EvaluationTasks(run.specifications, inner).all()
    rules = [rule for policy in policies for rule in policy]
    gates = gates_of(rules, [subject for one in assembled for subject in one.subjects])
    for one in assembled:
        if suite.options.takes([one.task.name, *one.task.tags]):
            task_gates = gates.get(one.task.name, ())
            yield replace(one.task, gates=task_gates) if task_gates else one.task


def _refuse_conflicting_secrets(
    secrets: Mapping[str, str], listed: Sequence[Entity]
) -> None:
    known = dict(secrets)
    problems = []
    for one in listed:
        file_secrets = one.file.values.get("secrets")
        for name, value in (
            file_secrets.items() if isinstance(file_secrets, dict) else ()
        ):
            if known.setdefault(name, value) != value:
                message = f"the secret {name!r} has a different value elsewhere in this"
                place = one.file.place("secrets", name)
                problems.append(Problem(f"{message} run", place, "use a unique name"))
    if problems:
        raise TaskFileError(problems)


class _EvaluationTasks:
    """Builds the tasks of an evaluation; tasks that others need are built first."""

    def __init__(self, specifications: Sequence[TaskUse], suite: EntitySuite) -> None:
        self._suite = suite
        self._specifications = {one.name: one for one in specifications}
        self._entities: dict[str, TaskEntity] = {}
        self._found: dict[str, AssembledTask | TaskFileError] = {}
        self._open: list[str] = []

    def all(self) -> list[AssembledTask]:
        ones = [self._one(key) for key in self._specifications]
        errors = [one for one in ones if isinstance(one, TaskFileError)]
        if errors:
            problems = [problem for one in errors for problem in one.problems]
            raise TaskFileError(dict.fromkeys(problems))
        return [one for one in ones if isinstance(one, AssembledTask)]

    def _one(self, key: str) -> AssembledTask | TaskFileError:
        if key not in self._found:
            self._open.append(key)
            try:
                self._found[key] = self._assembled(self._specifications[key])
            except TaskFileError as error:
                self._found[key] = error
            self._open.pop()
        return self._found[key]

    def _assembled(self, one: TaskUse) -> AssembledTask:
        if one.task not in self._entities:
            entity = self._suite.entity("task", one.task, one.place)
            self._entities[one.task] = read_task(entity)
        if one.n_runs > 1:
            message = "repeatability: a session cannot compare several runs of a task"
            fix = "--evals-repeatability=K runs everything K times"
            raise TaskFileError([Problem(message, one.place, fix)])
        return assemble(self._entities[one.task], one, self._suite, self._earlier)

    def _earlier(self, key: str, place: Place) -> AssembledTask:
        if key in self._open:
            names = " needs ".join((*self._open, key))
            raise TaskFileError([Problem(f"circular tasks: {names}", place)])
        if key not in self._specifications:
            hint = suggestion(key, list(self._specifications))
            message = f"this evaluation has no specification {key!r}{hint}"
            fix = "results of other runs are available only on LatticeFlow's server"
            raise TaskFileError([Problem(message, place, fix)])
        task = self._one(key)
        if isinstance(task, TaskFileError):
            raise task
        return task
