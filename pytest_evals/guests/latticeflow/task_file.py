"""Reads a task file, except for its definition, which needs the values of its
parameters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from pytest_evals.dialects.yaml_reader.section import Section
from pytest_evals.dialects.yaml_reader.yaml_file import YamlFile
from pytest_evals.errors import Place, Problem, TaskFileError
from pytest_evals.guests.latticeflow.entities import Entity
from pytest_evals.guests.latticeflow.fields import (
    entry_problem,
    read_header,
    required_section,
)
from pytest_evals.guests.latticeflow.parameters import (
    Parameter,
    dataset_parameter,
    read_parameters,
)

DATASET_KEY = "dataset_key"
"""Implicit parameter of a task that evaluates a dataset but does not name one."""
_ML_TASKS = ("chat_completion", "embeddings", "custom")
_ENTITY_TYPES = ("model", "dataset")
_TYPES = ("benchmark_task", "system_task")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskEntity:
    """A task."""

    key: str
    tags: tuple[str, ...]  # as names of pytest markers
    parameters: tuple[Parameter, ...]
    file: YamlFile  # before substitution
    place: Place
    is_system: bool
    lacks_dataset: bool
    warnings: tuple[str, ...] = ()


def read_task(entity: Entity) -> TaskEntity:
    """Return the task of a file. Raises ``TaskFileError`` with all problems outside its
    definition; those of the definition are reported when its parameters have values."""
    problems: list[Problem] = []
    warnings: list[str] = list(entity.file.warnings)
    top = Section(entity.file, problems)
    header = read_header(top, "a task", ("key", "display_name", "description"))
    for number, word in enumerate(top.take("tasks", list, [])):
        if word not in _ML_TASKS:
            fix = f"tasks may contain {', '.join(_ML_TASKS)}"
            entry_problem(top, "tasks", number, f"unknown kind of model {word!r}", fix)
    parameters = read_parameters(top)
    evaluated = _deprecated_type(top, warnings)
    definition = required_section(top, "definition", "{scorers: []}")
    top.close("a task")
    kind, lacks_dataset = "", False
    if definition is not None:
        kind = _kind(definition, warnings)
        if kind != "system_task":
            lacks_dataset = definition.values.get("dataset") is None
            _check_shape(definition, evaluated or _own_type(definition))
    if problems:
        raise TaskFileError(problems)
    if lacks_dataset and all(one.key != DATASET_KEY for one in parameters):
        parameters = (*parameters, dataset_parameter(DATASET_KEY, entity.place))
    return TaskEntity(
        key=header.key,
        tags=tuple(marker(tag) for tag in header.tags),
        parameters=parameters,
        file=entity.file,
        place=entity.place,
        is_system=kind == "system_task",
        lacks_dataset=lacks_dataset,
        warnings=tuple(warnings),
    )


def marker(tag: str) -> str:
    """Return a tag as a valid marker name."""
    return re.sub(r"\W+", "_", tag).strip("_") or "tag"


def _deprecated_type(top: Section, warnings: list[str]) -> str:
    """Return the deprecated type at the root of a task, or an empty string."""
    if top.raw("evaluated_entity_type") is None:
        return ""
    found = top.one_of("evaluated_entity_type", "entity type", _ENTITY_TYPES, "")
    place = top.place("evaluated_entity_type")
    warnings.append(f"{place}: evaluated_entity_type must be in definition")
    inner = top.values.get("definition")
    inside = inner.get("evaluated_entity_type") if isinstance(inner, Mapping) else None
    if inside is not None and inside != found:
        what = f"evaluated_entity_type is {found!r} here and {inside!r} in definition"
        top.problem("evaluated_entity_type", what, "remove this one")
    return found


def _own_type(definition: Section) -> str:
    if definition.values.get("evaluated_entity_type") is None:
        return ""
    return definition.one_of("evaluated_entity_type", "entity type", _ENTITY_TYPES, "")


def _kind(definition: Section, warnings: list[str]) -> str:
    if definition.values.get("type") == "declarative_task":
        definition.raw("type")
        place = definition.place("type")
        warnings.append(f"{place}: declarative_task has been renamed to benchmark_task")
        return "benchmark_task"
    return definition.one_of("type", "task type", _TYPES, _TYPES[0])


def _check_shape(definition: Section, evaluated: str) -> None:
    """Check that a model task has dataset and solver, a dataset task no solver."""
    has_solver = definition.values.get("solver") is not None
    has_dataset = definition.values.get("dataset") is not None
    if has_solver and evaluated == "dataset":
        what = "a task that evaluates a dataset must not have a solver"
        definition.problem("solver", what, "evaluated_entity_type: model")
    elif has_solver and not has_dataset:
        what = "a task with a solver needs a dataset"
        definition.problem("solver", what, "dataset: {key: my-dataset}")
    elif evaluated == "model" and not has_solver:
        what = "a task that evaluates a model needs a solver"
        fix = "evaluated_entity_type: dataset, or a solver"
        definition.problem("evaluated_entity_type", what, fix)
