"""Reads a task file: the task, except for its definition, which needs the values of its
parameters; its dataset (one, several aligned ones, or the results of another task); the
selected samples and their ids; and scorers of all samples at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from threading import Lock
from typing import Any, Literal, NamedTuple

from pytest_evals.core.dialogue import Dialogue
from pytest_evals.core.task import TaskOptions
from pytest_evals.data.rows import (
    Ids,
    SelectedRows,
    Table,
    document_ids,
    row_sizes,
    selection,
)
from pytest_evals.dialects.yaml_reader.section import Section
from pytest_evals.dialects.yaml_reader.yaml_file import YamlFile
from pytest_evals.errors import DocumentError, Place, Problem, TaskFileError, suggestion
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
from pytest_evals.guests.latticeflow.prompts.output import SampleScore
from pytest_evals.guests.latticeflow.reader import parameter_of
from pytest_evals.guests.latticeflow.scoring.scorer import SampleScorer
from pytest_evals.guests.latticeflow.suite import EntitySuite
from pytest_evals.guests.latticeflow.tables import ID, Rows

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
    kind, lacks_dataset = _kind(definition, warnings), False
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


_SOURCES = ("dataset", "task_result")


class DatasetKeys(NamedTuple):
    """The data that a definition refers to: name in samples → key of each dataset (a
    single one has an empty name), or the key of an earlier task."""

    datasets: Mapping[str, str]
    result: str = ""


class DatasetColumn(NamedTuple):
    """A parameter whose value is the name of a column."""

    parameter: str
    name: str
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDataset:
    """The data of a task."""

    keys: Mapping[str, str]  # as in DatasetKeys
    place: Place
    needs_equal: bool = True  # whether aligned datasets must have equally many rows
    columns: Sequence[DatasetColumn] = ()

    def load(self, suite: EntitySuite) -> Samples:
        """Return all samples. Raises ``TaskFileError``."""
        tables = {name: suite.rows(key, self.place) for name, key in self.keys.items()}
        first = next(iter(tables.values()))
        every = (row for rows in tables.values() for row in rows)
        self.check_columns({name for row in every for name in row})
        ids = [row.get(ID) for row in first]
        if "" in tables:
            return Samples(first, None, ids)
        lengths = {name: len(rows) for name, rows in tables.items()}
        if self.needs_equal and len({*lengths.values()}) > 1:
            counts = ", ".join(f"{name} has {n}" for name, n in lengths.items())
            what = f"aligned datasets must have the same number of rows: {counts}"
            raise TaskFileError([Problem(what, self.place)])
        samples: Rows = [
            {name: rows[i] for name, rows in tables.items() if i < len(rows)}
            for i in range(len(first))
        ]
        return Samples(samples, tables, ids)

    def check_columns(self, known: Collection[str]) -> None:
        """Raise ``TaskFileError`` if a column is missing that a parameter names."""
        problems = [
            Problem(
                f"{one.parameter}: the dataset has no column {one.name!r}"
                + suggestion(one.name, sorted(known)),
                one.place,
            )
            for one in self.columns
            if one.name not in known
        ]
        if problems:
            raise TaskFileError(problems)


def aligned_names(definition: Any) -> tuple[str, ...]:
    """Return the names of the aligned datasets of a definition before substitution:
    parameters, or keys that are not placeholders."""
    dataset = definition.get("dataset") if isinstance(definition, Mapping) else None
    keys = dataset.get("keys") if isinstance(dataset, Mapping) else None
    if not isinstance(keys, list):
        return ()
    return tuple(parameter_of(key) or str(key) for key in keys)


def read_task_dataset(
    definition: Section, names: Sequence[str], warnings: list[str]
) -> DatasetKeys:
    """Return the data of a definition after substitution; errors are added to the
    problems of the section. ``names``: the result of :func:`aligned_names`."""
    section = definition.section("dataset")
    if section is None:
        return DatasetKeys({})
    source = section.one_of("source", "source of samples", _SOURCES, _SOURCES[0])
    if section.raw("fast_subset_size") is not None:
        place = section.place("fast_subset_size")
        warnings.append(f"{place}: fast_subset_size is deprecated and ignored")
    key, keys = section.raw("key"), section.raw("keys")
    section.close("the dataset of a task")
    if (key is None) == (keys is None):
        section.problem("key", "a dataset needs either key or keys", "key: my-dataset")
        return DatasetKeys({})
    if key is None:
        if source == "task_result":
            what = "task_result takes the results of one task"
            section.problem("keys", what, "key: << config.my_result >>")
        return DatasetKeys(_aligned(section, keys, names))
    if not isinstance(key, str) or not key:
        section.problem("key", f"key must be the key of a dataset, not {key!r}")
        return DatasetKeys({})
    return DatasetKeys({}, key) if source == "task_result" else DatasetKeys({"": key})


def _aligned(section: Section, keys: Any, names: Sequence[str]) -> Mapping[str, str]:
    if not isinstance(keys, list) or not keys:
        section.problem("keys", "keys must be a list of dataset keys")
        return {}
    found: dict[str, str] = {}
    for number, (name, one) in enumerate(zip(names, keys, strict=True)):
        if not isinstance(one, str):
            entry_problem(section, "keys", number, f"{one!r} is not a valid key")
        elif name in found:
            entry_problem(section, "keys", number, f"duplicate dataset {name!r}")
        else:
            found[name] = one
    return found


SEED = 1234
"""Seed of ``subsampling: random``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subsample:
    """Number of samples to run: the first ``n``, or ``n`` random ones in order."""

    n: int
    how: Literal["head", "random"] = "head"


class Samples(NamedTuple):
    """The samples of a dataset, or of several aligned ones."""

    samples: Rows
    columns: Mapping[str, Rows] | None  # rows of each aligned dataset, by its parameter
    ids: Sequence[Any]


class SampleRows(SelectedRows):
    """The documents of a task; their dataset is loaded on first access. ``options``:
    limit, sample and seed of the session."""

    def __init__(
        self,
        load: Callable[[], Samples],
        options: TaskOptions,
        subsample: Subsample | None = None,
    ) -> None:
        super().__init__(options)
        self._load, self._subsample = load, subsample

    def sample(self, index: int) -> dict[str, Any]:
        """Return the sample at a position of the whole dataset."""
        return self.loaded.samples[index]

    @cached_property
    def loaded(self) -> Samples:
        """All samples."""
        return self._load()

    @cached_property
    def own(self) -> Sequence[int]:
        """Positions that the task's own subsampling selects."""
        total, subsample = len(self.loaded.samples), self._subsample
        if subsample is None:
            return range(total)
        if subsample.how == "head":
            return range(min(total, subsample.n))
        return selection(total, None, subsample.n, SEED)

    def _load_ids(self) -> Ids:
        return document_ids(Table([{ID: one} for one in self.loaded.ids]))

    def _sizes_of(self, indices: Sequence[int]) -> Sequence[int]:
        return row_sizes([self.loaded.samples[n] for n in indices])


def with_all_samples(
    scorers: Sequence[SampleScorer], rows: SampleRows
) -> tuple[SampleScorer, ...]:
    """Return the scorers; those of all samples get a dialogue for each sample."""
    return tuple(
        one
        if one.score_samples is None
        else replace(one, dialogue=_AllSamplesDialogue(one, rows))
        for one in scorers
    )


class _AllSamplesDialogue:
    """Dialogue of a ``python_all_samples`` scorer. The scorer is called once per
    process, when the first sample is scored. It always receives all samples of the
    task, including those that another worker runs, so that every process computes the
    same scores. Samples are identified by object identity."""

    def __init__(self, scorer: SampleScorer, rows: SampleRows) -> None:
        self._scorer, self._rows = scorer, rows
        self._scores: dict[int, SampleScore] | None = None
        self._error = ""
        self._lock = Lock()

    def __call__(self, sample: Any, output: Any) -> Dialogue[SampleScore]:
        yield from ()
        with self._lock:
            if self._scores is None:
                self._scores = self._score_all()
        if self._error:
            raise DocumentError(self._error)
        if id(sample) not in self._scores:
            what = "this sample was not among the samples of the scorer's call"
            raise DocumentError(what)
        return self._scores[id(sample)]

    def _score_all(self) -> dict[int, SampleScore]:
        indices, loaded = self._rows.indices(), self._rows.loaded
        samples = [loaded.samples[i] for i in indices]
        argument: Any = samples
        if loaded.columns is not None:
            argument = {
                name: [rows[i] for i in indices if i < len(rows)]
                for name, rows in loaded.columns.items()
            }
        assert self._scorer.score_samples is not None, "checked by with_all_samples"
        try:
            scores = self._scorer.score_samples(argument)
        except DocumentError as error:
            self._error = str(error)
            return {}
        return {id(one): score for one, score in zip(samples, scores, strict=True)}
