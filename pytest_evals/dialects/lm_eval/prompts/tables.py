"""Evaluated documents and few-shot rows of a task: selection of the splits, and
``process_docs``.

Each split is processed once per task, few-shot rows first, with seeded global random
generators, so that a ``process_docs`` that shuffles returns the same rows in every
process. lm-eval 0.4.13 processes a split on each access, so such a task's result
depends on the caches of the machine there.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from pytest_evals.core.task import RowLines
from pytest_evals.data.calls import FieldError, call, error_text
from pytest_evals.data.hub import datasets_library, reading_datasets
from pytest_evals.data.rows import RowsError, Table
from pytest_evals.data.source_paths import RowPlaces, resolve
from pytest_evals.data.sources import load
from pytest_evals.dialects.lm_eval.prompts.recipe import Recipe
from pytest_evals.errors import Problem, TaskFileError, did_you_mean
from pytest_evals.prompts.fields import Field

_PYTHON_SEED = 0
_NUMPY_SEED = 1234
"""lm-eval's seeds of the global generators before it builds the first task."""


class Tables(NamedTuple):
    """The rows of a task."""

    asked: Table  # the evaluated documents, in order
    pool: Table
    """Source of few-shot examples; empty if missing, and the same object as ``asked``
    if both are one split."""
    pool_name: str
    shuffled: bool  # whether ``process_docs`` used the global random generators


class _Part(NamedTuple):
    """A split and its transformation; equal parts are processed once."""

    key: str
    split: str
    process: Field | None


def load_tables(recipe: Recipe) -> Tables:
    """Load the rows of a task. Raises TaskFileError if the dataset or a split does not
    exist or is empty, or a user function fails."""
    processed = recipe.process_docs or recipe.shots.process_docs
    splits = load(recipe.source, plain=processed is None)
    asked, pool = _asked_part(recipe), _pool_part(recipe)
    load_split = _SplitLoader(recipe, splits)
    if recipe.shots.n == 0:
        with seeded() as is_used:
            table = load_split(asked)
            if not is_used():
                return Tables(table, Table([]), "", False)
    load_split = _SplitLoader(recipe, splits)
    with seeded() as is_used:
        shots = load_split(pool) if pool is not None else _samples(recipe)
        table = load_split(asked)
        shuffled = is_used()
    name = f"split {pool.split!r}" if pool is not None else "fewshot_config.samples"
    return Tables(table, shots, name, shuffled)


def row_lines(recipe: Recipe) -> Callable[[], RowLines] | None:
    """Return where the evaluated rows are written; ``None`` if a function processes
    them, or if they are not those of one text file."""
    names = recipe.splits
    split = names.test if names.test is not None else names.validation
    source = recipe.source
    if recipe.process_docs or source.maker or source.path not in ("csv", "json"):
        return None
    files = resolve(source).arguments.get("data_files")
    files = files.get(split) if isinstance(files, Mapping) else files
    if isinstance(files, list) and len(files) == 1:
        files = files[0]
    return RowPlaces(Path(files)).with_path if isinstance(files, str) else None


class _SplitLoader:
    def __init__(self, recipe: Recipe, splits: Mapping[str, Any]) -> None:
        self._recipe, self._splits = recipe, splits
        key = "custom_dataset" if recipe.source.maker else "dataset_path"
        self._origin = Field(key=key, spec=None, place=recipe.source.place)
        self._tables: dict[tuple[str, object], Table] = {}

    def __call__(self, part: _Part) -> Table:
        function = part.process.spec if part.process is not None else None
        table = self._tables.get((part.split, function))
        if table is None:
            table = self._load(part)
            self._tables[part.split, function] = table
        return table

    def _load(self, part: _Part) -> Table:
        place = self._recipe.splits.places.get(part.key, self._recipe.place)
        if part.split not in self._splits:
            names = [str(name) for name in self._splits]
            message = f"{part.key}: the dataset has no split {part.split!r}"
            message += did_you_mean(part.split, names)
            fix = f"use one of its splits: {', '.join(names)}"
            raise TaskFileError([Problem(message, place, fix)])
        rows = self._splits[part.split]
        if part.process is not None:
            rows = _process(rows, part.process)
        table = _table(rows, part.process or self._origin)
        if not table:
            after = " after process_docs" if part.process is not None else ""
            message = f"{part.key}: the split {part.split!r} has no documents{after}"
            raise TaskFileError([Problem(message, place)])
        return table


def _process(rows: Any, process: Field) -> Any:
    """Apply the user's function to a split. The cache on disk is disabled, because it
    would restore random numbers of an earlier run."""
    datasets = datasets_library(process.key)
    cached = datasets.is_caching_enabled()
    datasets.disable_caching()
    try:
        with reading_datasets():
            return call(process.spec, (rows,), process.key, process.place)
    except FieldError as error:
        raise TaskFileError([error.problem]) from error
    finally:
        if cached:
            datasets.enable_caching()


def _table(rows: Any, origin: Field) -> Table:
    try:
        return Table(rows)
    except RowsError as error:
        message = str(error)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a user's generator may raise anything
        message = error_text(error)
    raise TaskFileError([Problem(f"{origin.key}: {message}", origin.place)])


def _samples(recipe: Recipe) -> Table:
    samples = recipe.shots.samples
    field = Field(key="fewshot_config.samples", spec=samples, place=recipe.shots.place)
    if callable(samples):
        try:
            samples = call(samples, (), field.key, field.place)
        except FieldError as error:
            raise TaskFileError([error.problem]) from error
    return _table(samples, field)


def _asked_part(recipe: Recipe) -> _Part:
    splits = recipe.splits
    if splits.test is not None:
        return _Part("test_split", splits.test, recipe.process_docs)
    if splits.validation is not None:
        return _Part("validation_split", splits.validation, recipe.process_docs)
    fix = "set the split to evaluate: test_split: test"
    message = f"{recipe.name!r} has neither a test_split nor a validation_split"
    raise TaskFileError([Problem(message, recipe.place, fix)])


def _pool_part(recipe: Recipe) -> _Part | None:
    """Split of few-shot examples; ``None`` if the task file lists them."""
    splits, process = recipe.splits, recipe.process_docs
    if splits.fewshot is not None:
        return _Part("fewshot_split", splits.fewshot, recipe.shots.process_docs)
    if recipe.shots.samples is not None:
        return None
    if splits.training is not None:
        return _Part("training_split", splits.training, process)
    if splits.validation is not None:
        return _Part("validation_split", splits.validation, process)
    return _asked_part(recipe)


@contextmanager
def seeded() -> Iterator[Callable[[], bool]]:
    """Seed the global random generators and restore their state afterwards. Yields a
    function that returns whether they have been used."""
    import numpy as np

    python_state, numpy_state = random.getstate(), np.random.get_state()
    random.seed(_PYTHON_SEED)
    np.random.seed(_NUMPY_SEED)
    start = _states()

    def is_used() -> bool:
        return _states() != start

    try:
        yield is_used
    finally:
        random.setstate(python_state)
        np.random.set_state(numpy_state)


def _states() -> tuple[object, bytes, int]:
    import numpy as np

    state: Any = np.random.get_state()
    return random.getstate(), state[1].tobytes(), state[2]
