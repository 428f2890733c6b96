"""LatticeFlow's task files and run files: a YAML file → tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from pytest_evals.core.task import Task, TaskOptions
from pytest_evals.dialects.latticeflow.assembly import assembled
from pytest_evals.dialects.latticeflow.entities import Entities, Entity
from pytest_evals.dialects.latticeflow.evaluation import (
    Evaluation,
    Specification,
    read_run,
)
from pytest_evals.dialects.latticeflow.parameters import Given, Parameter
from pytest_evals.dialects.latticeflow.policies import PolicyRule, gates_of, read_policy
from pytest_evals.dialects.latticeflow.suite import EntitySuite
from pytest_evals.dialects.latticeflow.task_file import TaskEntity, marker, read_task
from pytest_evals.dialects.latticeflow.task_parts import Assembled, Use
from pytest_evals.dialects.yaml_reader.yaml_file import read_yaml
from pytest_evals.errors import Place, Problem, TaskFileError, did_you_mean

_OPTION = Place(Path("--evals-latticeflow-config"))


def entities_of(path: Path, options: TaskOptions) -> Entities:
    """What the files around a file may name."""
    root = Path(options.root) if options.root else path.absolute().parent
    return Entities(root=root, base=Path(options.base) if options.base else None)


def load_tasks(
    path: Path,
    options: TaskOptions,
    entities: Entities | None = None,
    *,
    beside: Sequence[Path] = (),
) -> tuple[Task, ...]:
    """The tasks of a file, as far as the options select them.

    Args:
        path: A task file or a run file.
        options: What the command line changes.
        entities: What the files around it may name; those that are known already save
            time.
        beside: Files and folders that are collected with it: a task that a run file
            among these runs is left to that.

    Raises:
        TaskFileError: With all problems of it.
    """
    known = entities or entities_of(path, options)
    first, *listed = known.of_file(path) or _undeclared(path)
    suite = EntitySuite(entities=known, options=options)
    if first.kind == "task":
        if _is_run(first, known, beside):
            return ()
        return tuple(_alone(first, suite))
    if first.kind in ("run", "evaluation"):
        return tuple(_run(first, listed, suite))
    what = f"this is a {first.kind}, and no task"
    raise TaskFileError([Problem(what, first.place)])


def is_left_to_a_run(path: Path, folder: Path) -> bool:
    """Whether a task file is run by a run file of a folder, and so not by itself; one
    that cannot be read is not."""
    known = entities_of(path, TaskOptions(root=str(folder)))
    try:
        first = next(iter(known.of_file(path)), None)
    except TaskFileError:
        return False
    return bool(first and first.kind == "task" and _is_run(first, known, [folder]))


def _undeclared(path: Path) -> NoReturn:
    """Refuse a file that looks like a task or a run file and lacks the key of both."""
    file, known = read_yaml(path), ("definition", "evaluation", "task_specifications")
    what = "a task has a definition, and a run file an evaluation; there is neither"
    for key in file.values:
        if hint := did_you_mean(str(key), known):
            raise TaskFileError([Problem(f"{what}: {key!r}{hint}", file.place(key))])
    raise TaskFileError([Problem(what, Place(path, 1))])


def _is_run(task: Entity, entities: Entities, places: Sequence[Path]) -> bool:
    """Whether a run file lists this very task, or an evaluation names its key."""
    for run in entities.runs(places):
        for one in entities.of_file(run.file.path):
            if one.kind == "task" and one.place == task.place:
                return True
        if any(task.key == key for key in _named_tasks(run)):
            return True
    return False


def _named_tasks(run: Entity) -> Iterator[Any]:
    values = run.file.values
    evaluation = values.get("evaluation") if run.kind == "run" else values
    listed = (
        evaluation.get("task_specifications") if isinstance(evaluation, dict) else ()
    )
    for one in listed if isinstance(listed, list) else ():
        if isinstance(one, dict):
            yield one.get("task_key")


def _alone(entity: Entity, suite: EntitySuite) -> Iterator[Task]:
    """A task by itself, with the values of its parameters from the command line."""
    tags = entity.file.values.get("tags")
    names = [str(tag) for tag in tags] if isinstance(tags, list) else []
    if not suite.options.takes([entity.key, *map(marker, names)]):
        return
    task = read_task(entity)
    suite.entities.parameters.update(one.key for one in task.parameters)
    given = _typed(task.parameters, suite.options.parameters)
    use = Use(name=task.key, place=task.place, config=given)
    yield assembled(task, use, suite).task


def _typed(
    parameters: Sequence[Parameter], given: Mapping[str, Any]
) -> Mapping[str, Given]:
    known = {one.key for one in parameters}
    return {key: Given(value, _OPTION) for key, value in given.items() if key in known}


def _run(
    entity: Entity, listed: Sequence[Entity], suite: EntitySuite
) -> Iterator[Task]:
    """The tasks of a run file: those of its evaluation, with its policies as gates;
    or, without an evaluation, all that it lists."""
    run = read_run(entity, suite.options.parameters)
    suite.entities.parameters.update(run.parameters)
    inner = replace(suite, own=tuple(listed), secrets=run.secrets)
    _refuse_other_secrets(run.secrets, listed)
    tasks = [one for one in listed if one.kind == "task"]
    policies = [read_policy(one) for one in listed if one.kind == "policy"]
    rules = [rule for policy in policies for rule in policy]
    if run.evaluation is None:
        for task in tasks:
            yield from _alone(task, inner)
        return
    found = _Specified(run.evaluation, inner).all()
    yield from _with_gates(found, rules, suite.options)


def _refuse_other_secrets(secrets: Mapping[str, str], listed: Sequence[Entity]) -> None:
    """A secret has one value in all of a run."""
    known = dict(secrets)
    problems = []
    for one in listed:
        own = one.file.values.get("secrets")
        for name, value in own.items() if isinstance(own, dict) else ():
            if known.setdefault(name, value) != value:
                what = f"the secret {name!r} has another value elsewhere in this run"
                place = one.file.place("secrets", name)
                problems.append(Problem(what, place, "give each a name of its own"))
    if problems:
        raise TaskFileError(problems)


def _with_gates(
    found: Sequence[Assembled], rules: Sequence[PolicyRule], options: TaskOptions
) -> Iterator[Task]:
    gates = gates_of(rules, [subject for one in found for subject in one.subjects])
    for one in found:
        if options.takes([one.task.name, *one.task.tags]):
            own = gates.get(one.task.name, ())
            yield replace(one.task, gates=own) if own else one.task


class _Specified:
    """The tasks of an evaluation; one may need another, which is assembled first."""

    def __init__(self, evaluation: Evaluation, suite: EntitySuite) -> None:
        self._evaluation, self._suite = evaluation, suite
        self._specifications = {one.key: one for one in evaluation.specifications}
        self._entities: dict[str, TaskEntity] = {}
        self._found: dict[str, Assembled | TaskFileError] = {}
        self._open: list[str] = []

    def all(self) -> list[Assembled]:
        """All of them, in the order of the file.

        Raises:
            TaskFileError: With the problems of all that cannot be used.
        """
        ones = [self._one(key) for key in self._specifications]
        problems = [
            problem
            for one in ones
            if isinstance(one, TaskFileError)
            for problem in one.problems
        ]
        if problems:
            raise TaskFileError(dict.fromkeys(problems))
        return [one for one in ones if isinstance(one, Assembled)]

    def _one(self, key: str) -> Assembled | TaskFileError:
        if key not in self._found:
            one = self._specifications[key]
            self._open.append(key)
            try:
                task = self._task(one)
                self._found[key] = assembled(task, self._use(one), self._suite)
            except TaskFileError as error:
                self._found[key] = error
            self._open.pop()
        return self._found[key]

    def _earlier(self, key: str, place: Place) -> Assembled:
        """Another task, for one that takes its results as samples."""
        if key in self._open:
            names = " needs ".join((*self._open, key))
            raise TaskFileError([Problem(f"a circle of tasks: {names}", place)])
        if key not in self._specifications:
            known = list(self._specifications)
            hint = did_you_mean(key, known) or f"; there are: {', '.join(known)}"
            what = f"no specification of this evaluation is called {key!r}{hint}"
            fix = "results of other runs are on LatticeFlow's server, and not here"
            raise TaskFileError([Problem(what, place, fix)])
        found = self._one(key)
        if isinstance(found, TaskFileError):
            raise found
        return found

    def _task(self, one: Specification) -> TaskEntity:
        if one.task not in self._entities:
            entity = self._suite.entity("task", one.task, one.place)
            self._entities[one.task] = read_task(entity)
        return self._entities[one.task]

    def _use(self, one: Specification) -> Use:
        if one.n_runs > 1:
            what = "repeatability: a session does not compare several runs of a task"
            fix = "--evals-repeatability=K runs everything K times"
            raise TaskFileError([Problem(what, one.place, fix)])
        return Use(
            name=one.key,
            place=one.place,
            config=one.config,
            model=one.model,
            subsample=one.subsample,
            n_trials=one.n_trials,
            evaluation=self._evaluation.key,
            earlier=self._earlier,
        )
