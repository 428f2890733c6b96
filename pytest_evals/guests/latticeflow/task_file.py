"""Reads a task file: the task, except for its definition, which needs the values of its
parameters; its dataset (one, several aligned ones, or the results of another task); the
selected samples and their ids; and scorers of all samples at once. In a system task,
one function returns metric values, and there are no samples.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property
from typing import Any, NamedTuple

from pytest_evals.core.dialogue import Dialogue
from pytest_evals.core.doc import Doc
from pytest_evals.core.metric import Estimate, Metric
from pytest_evals.core.record import Record, Score
from pytest_evals.core.task import Asked, Task, TaskOptions
from pytest_evals.data.rows import (
    Ids,
    SelectedRows,
    Table,
    document_ids,
    row_sizes,
    selection,
)
from pytest_evals.errors import DocumentError, Place, Problem, TaskFileError, suggestion
from pytest_evals.guests.latticeflow.entities import Entity
from pytest_evals.guests.latticeflow.fields import Keys
from pytest_evals.guests.latticeflow.parameters import (
    Parameter,
    any_text,
    read_parameters,
)
from pytest_evals.guests.latticeflow.prompts.output import SampleScore
from pytest_evals.guests.latticeflow.reader import parameter_of
from pytest_evals.guests.latticeflow.scoring.scorer import SampleScorer
from pytest_evals.guests.latticeflow.snippets import Snippet, snippet_of, to_json
from pytest_evals.guests.latticeflow.tables import ID, Rows

DATASET_KEY = "dataset_key"
"""Implicit parameter of a task that evaluates a dataset but does not name one."""
_ML_TASKS = ("chat_completion", "embeddings", "custom")
_ENTITY = "evaluated_entity_type"
_ENTITY_TYPES = ("model", "dataset")
_TYPES = ("benchmark_task", "system_task")


class TaskEntity(NamedTuple):
    """A task."""

    entity: Entity  # before substitution
    tags: tuple[str, ...]  # as names of pytest markers
    parameters: tuple[Parameter, ...]
    warnings: tuple[str, ...]
    is_system: bool
    lacks_dataset: bool


def read_task(entity: Entity) -> TaskEntity:
    """Return the task of a file. Raises ``TaskFileError`` with all problems outside its
    definition; those of the definition are reported when its parameters have values."""
    warnings: list[str] = list(entity.file.warnings)
    top = Keys(entity.file, [])
    top.header("a task", ("key", "display_name", "description"))
    for number, word in enumerate(top.take("tasks", list, [])):
        if word not in _ML_TASKS:
            fix = f"tasks may contain {', '.join(_ML_TASKS)}"
            top.entry_problem("tasks", number, f"unknown kind of model {word!r}", fix)
    parameters = read_parameters(top)
    evaluated = _deprecated_type(top, warnings)
    definition = top.required_section("definition", "{scorers: []}")
    top.close("a task")
    kind, lacks_dataset = _kind(definition, warnings), False
    if kind != "system_task":
        lacks_dataset = definition.values.get("dataset") is None
        if not evaluated and definition.values.get(_ENTITY) is not None:
            evaluated = definition.one_of(_ENTITY, "entity type", _ENTITY_TYPES, "")
        _check_shape(definition, evaluated)
    if top.problems:
        raise TaskFileError(top.problems)
    if lacks_dataset and all(one.key != DATASET_KEY for one in parameters):
        dataset = Parameter(DATASET_KEY, "dataset", entity.place, any_text)
        parameters = (*parameters, dataset)
    tags = tuple(marker(tag) for tag in entity.file.values.get("tags") or ())
    is_system = kind == "system_task"
    notes = tuple(warnings)
    return TaskEntity(entity, tags, parameters, notes, is_system, lacks_dataset)


def marker(tag: str) -> str:
    """Return a tag as a valid marker name."""
    return re.sub(r"\W+", "_", tag).strip("_") or "tag"


def _deprecated_type(top: Keys, warnings: list[str]) -> str:
    if top.raw(_ENTITY) is None:
        return ""
    found = top.one_of(_ENTITY, "entity type", _ENTITY_TYPES, "")
    warnings.append(f"{top.place(_ENTITY)}: {_ENTITY} must be in definition")
    inner = top.values.get("definition")
    inside = inner.get(_ENTITY) if isinstance(inner, Mapping) else None
    if inside is not None and inside != found:
        message = f"{_ENTITY} is {found!r} here and {inside!r} in definition"
        top.problem(_ENTITY, message, "remove this one")
    return found


def _kind(definition: Keys, warnings: list[str]) -> str:
    if definition.values.get("type") == "declarative_task":
        definition.raw("type")
        place = definition.place("type")
        warnings.append(f"{place}: declarative_task has been renamed to benchmark_task")
        return "benchmark_task"
    return definition.one_of("type", "task type", _TYPES, _TYPES[0])


def _check_shape(definition: Keys, evaluated: str) -> None:
    """Check that a model task has dataset and solver, a dataset task no solver."""
    has_solver = definition.values.get("solver") is not None
    has_dataset = definition.values.get("dataset") is not None
    if has_solver and evaluated == "dataset":
        message = "a task that evaluates a dataset must not have a solver"
        definition.problem("solver", message, "evaluated_entity_type: model")
    elif has_solver and not has_dataset:
        message = "a task with a solver needs a dataset"
        definition.problem("solver", message, "dataset: {key: my-dataset}")
    elif evaluated == "model" and not has_solver:
        message = "a task that evaluates a model needs a solver"
        fix = "evaluated_entity_type: dataset, or a solver"
        definition.problem(_ENTITY, message, fix)


_SOURCES = ("dataset", "task_result")


class DatasetKeys(NamedTuple):
    """The data that a definition refers to: name in samples → key of each dataset (a
    single one has an empty name), or the key of an earlier task."""

    datasets: Mapping[str, str]
    result: str = ""


Columns = Sequence[tuple[Parameter, str]]
"""Parameters whose values are names of columns, and these names."""


def load_samples(
    tables: Mapping[str, Rows], columns: Columns, place: Place, *, needs_equal: bool
) -> Samples:
    """Return the samples of datasets with names as in :class:`DatasetKeys`. Raises
    ``TaskFileError``. ``needs_equal``: whether aligned datasets must have equally many
    rows."""
    first = next(iter(tables.values()))
    check_columns(columns, {name for t in tables.values() for row in t for name in row})
    if "" in tables:
        return Samples(first)
    lengths = {name: len(rows) for name, rows in tables.items()}
    if needs_equal and len({*lengths.values()}) > 1:
        counts = ", ".join(f"{name} has {n}" for name, n in lengths.items())
        message = f"aligned datasets must have the same number of rows: {counts}"
        raise TaskFileError([Problem(message, place)])
    samples: Rows = [
        {name: rows[i] for name, rows in tables.items() if i < len(rows)}
        for i in range(len(first))
    ]
    return Samples(samples, tables)


def check_columns(columns: Columns, known: Collection[str]) -> None:
    """Raise ``TaskFileError`` if a column is missing that a parameter names."""
    problems = [
        Problem(
            f"{one.key}: the dataset has no column {name!r}"
            + suggestion(name, sorted(known)),
            one.place,
        )
        for one, name in columns
        if name not in known
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
    definition: Keys, names: Sequence[str], warnings: list[str]
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
            message = "task_result takes the results of one task"
            section.problem("keys", message, "key: << config.my_result >>")
        return DatasetKeys(_aligned(section, keys, names))
    if not isinstance(key, str) or not key:
        section.problem("key", f"key must be the key of a dataset, not {key!r}")
        return DatasetKeys({})
    return DatasetKeys({}, key) if source == "task_result" else DatasetKeys({"": key})


def _aligned(section: Keys, keys: Any, names: Sequence[str]) -> Mapping[str, str]:
    if not isinstance(keys, list) or not keys:
        section.problem("keys", "keys must be a list of dataset keys")
        return {}
    found: dict[str, str] = {}
    for number, (name, one) in enumerate(zip(names, keys, strict=True)):
        if not isinstance(one, str):
            section.entry_problem("keys", number, f"{one!r} is not a valid key")
        elif name in found:
            section.entry_problem("keys", number, f"duplicate dataset {name!r}")
        else:
            found[name] = one
    return found


SEED = 1234  # Seed of subsampling: random


class Sizes(NamedTuple):
    """How much of a task is run: the first samples or random ones, in order, and
    trials per sample. 0 and an empty text are the task's own."""

    n_samples: int = 0
    how: str = ""  # head or random
    n_trials: int = 0


class Samples(NamedTuple):
    """The samples of a dataset, or of several aligned ones."""

    samples: Rows
    columns: Mapping[str, Rows] | None = None
    """Rows of each aligned dataset, by its parameter; ids are those of the first."""


class SampleRows(SelectedRows):
    """The documents of a task; their dataset is loaded on first access. ``options``:
    limit, sample and seed of the session."""

    def __init__(
        self, load: Callable[[], Samples], options: TaskOptions, sizes: Sizes
    ) -> None:
        super().__init__(options)
        self._load, self._own_sizes = load, sizes

    def sample(self, index: int) -> dict[str, Any]:
        """Return the sample at a position of the whole dataset."""
        return self.loaded.samples[index]

    @cached_property
    def loaded(self) -> Samples:
        """All samples."""
        return self._load()

    @cached_property
    def positions(self) -> Sequence[int]:
        """Positions that the task's own subsampling selects."""
        total, n = len(self.loaded.samples), self._own_sizes.n_samples
        if self._own_sizes.how == "random" and n:
            return selection(total, None, n, SEED)
        return range(min(total, n) if n else total)

    def _load_ids(self) -> Ids:
        samples, columns = self.loaded
        rows = samples if columns is None else next(iter(columns.values()))
        return document_ids(Table([{ID: row.get(ID)} for row in rows]))

    def _sizes_of(self, indices: Sequence[int]) -> Sequence[int]:
        return row_sizes([self.loaded.samples[n] for n in indices])


def with_all_samples(scorer: SampleScorer, rows: SampleRows) -> SampleScorer:
    """Return the scorer; one of all samples gets a dialogue for each sample.

    It is called once per process, when the first sample is scored. It always receives
    all samples of the task, including those that another worker runs, so that every
    process computes the same scores. Samples are identified by object identity."""
    score_samples = scorer.score_samples
    if score_samples is None:
        return scorer

    @cache
    def score_all() -> dict[int, SampleScore] | DocumentError:
        indices, loaded = rows.indices(), rows.loaded
        samples = [loaded.samples[i] for i in indices]
        argument: Any = samples
        if loaded.columns is not None:
            argument = {
                name: [column[i] for i in indices if i < len(column)]
                for name, column in loaded.columns.items()
            }
        try:
            scores = score_samples(argument)
        except DocumentError as error:
            return DocumentError(str(error))
        return {id(one): score for one, score in zip(samples, scores, strict=True)}

    def dialogue(sample: Any, _output: Any) -> Dialogue[SampleScore]:
        yield from ()
        scores = score_all()
        if isinstance(scores, DocumentError):
            raise DocumentError(str(scores))
        if id(sample) not in scores:
            message = "this sample was not among the samples of the scorer's call"
            raise DocumentError(message)
        return scores[id(sample)]

    return replace(scorer, dialogue=dialogue)


DOCUMENT = "evidence"  # Id of the only document, and name of its metric


class _OneRow:
    """Rows with a single document, which no limit excludes."""

    def ids(self) -> Sequence[str]:
        return [DOCUMENT]

    def indices(self) -> Sequence[int]:
        return [0]

    def total(self) -> int:
        return 1


def read_system_task(definition: Keys, arguments: Mapping[str, Any]) -> Task:
    """Return the task, whose document is scored by ``compute_evidence``; errors are
    added to the problems of the section. ``arguments``: those of all kinds of tasks."""
    function = snippet_of(definition, "compute_evidence_snippet", "compute_evidence")
    name = arguments["name"]

    def score(record: Record) -> tuple[Score, ...]:
        context: tuple[Any, ...] = ({},) if function.parameters() else ()
        return (function.read(lambda given: _evidence(given, function), *context),)

    def several(values: Sequence[Mapping[str, float]]) -> Mapping[str, Estimate]:
        return {name: Estimate(value) for one in values for name, value in one.items()}

    metric = Metric(
        name=DOCUMENT, aggregate=lambda _values: Estimate(math.nan), several=several
    )
    return Task(
        **arguments,
        rows=_OneRow(),
        ask=lambda _index: Asked(Doc("", [], 0, id=DOCUMENT, task_name=name), ()),
        score=score,
        metrics=(metric,),
        asks_model=False,
    )


def _evidence(given: Any, function: Snippet) -> Score:
    given = to_json(given, str)
    metrics = given.get("metrics") if isinstance(given, Mapping) else None
    if not isinstance(metrics, Mapping):
        message = f"must return metrics, not {given!r:.80}"
        fix = 'return {"metrics": {"size": {"value": 3}}}'
        raise function.invalid_return(message, fix)
    values, reasons = {}, []
    for name, one in metrics.items():
        value = one.get("value") if isinstance(one, Mapping) else None
        if not isinstance(value, int | float):
            message = f"must return a number as value of {name!r}, not {one!r:.80}"
            raise function.invalid_return(message, f'{{"{name}": {{"value": 3}}}}')
        values[str(name)] = float(value)
        if one.get("reason"):
            reasons.append(f"{name}: {one['reason']}")
    return Score(metric=DOCUMENT, value=values, explanation="; ".join(reasons))
