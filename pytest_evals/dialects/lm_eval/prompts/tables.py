"""The documents that are asked and the pool of their shots: which splits these are, and
what ``process_docs`` makes of them.

A split is processed once a task, the pool first, with the global random generators
seeded right before, so that a ``process_docs`` which shuffles gives the same rows in
every process. lm-eval 0.4.13 processes a split each time it needs it, and such a task's
number depends on the caches of the machine there.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from pytest_evals.data.calls import FieldError, call, fault_of
from pytest_evals.data.hub import reading_datasets
from pytest_evals.data.rows import RowsError, Table
from pytest_evals.data.sources import load
from pytest_evals.dialects.lm_eval.prompts.recipe import Recipe
from pytest_evals.errors import Problem, TaskFileError, did_you_mean
from pytest_evals.prompts.fields import Field

_PYTHON_SEED = 0
_NUMPY_SEED = 1234
"""What lm-eval seeds the global generators with before it builds the first task."""


class Tables(NamedTuple):
    """The rows of a task.

    Args:
        asked: The documents, in order.
        pool: Where shots are taken from; empty when there are none. The same object as
            ``asked`` where both are one split.
        pool_name: What the pool is called in messages.
        shuffled: Whether ``process_docs`` used the global random generators.
    """

    asked: Table
    pool: Table
    pool_name: str
    shuffled: bool


class _Part(NamedTuple):
    """A split and what it goes through; equal parts are processed once."""

    key: str
    split: str
    process: Field | None


def load_tables(recipe: Recipe) -> Tables:
    """The rows of a task.

    Raises:
        TaskFileError: The dataset or a split does not exist or is empty, or the user's
            own function fails.
    """
    processed = recipe.process_docs or recipe.shots.process_docs
    splits = load(recipe.source, plain=processed is None)
    asked, pool = _asked_part(recipe), _pool_part(recipe)
    cut = _Cutter(recipe, splits)
    if recipe.shots.n == 0:
        with seeded() as moved:
            table = cut(asked)
            if not moved():
                return Tables(table, Table([]), "", False)
    cut = _Cutter(recipe, splits)
    with seeded() as moved:
        shots = cut(pool) if pool is not None else _samples(recipe)
        table = cut(asked)
        shuffled = moved()
    name = f"split {pool.split!r}" if pool is not None else "fewshot_config.samples"
    return Tables(table, shots, name, shuffled)


class _Cutter:
    """Processed splits of a dataset, each made when it is first asked for."""

    def __init__(self, recipe: Recipe, splits: Mapping[str, Any]) -> None:
        self._recipe, self._splits = recipe, splits
        key = "custom_dataset" if recipe.source.maker else "dataset_path"
        self._origin = Field(key=key, spec=None, place=recipe.source.place)
        self._made: dict[tuple[str, object], Table] = {}

    def __call__(self, part: _Part) -> Table:
        function = part.process.spec if part.process is not None else None
        known = self._made.get((part.split, function))
        if known is None:
            known = self._cut(part)
            self._made[part.split, function] = known
        return known

    def _cut(self, part: _Part) -> Table:
        place = self._recipe.splits.places.get(part.key, self._recipe.place)
        if part.split not in self._splits:
            names = [str(name) for name in self._splits]
            what = f"{part.key}: the dataset has no split {part.split!r}"
            what += did_you_mean(part.split, names)
            fix = f"its splits are {', '.join(names)}"
            raise TaskFileError([Problem(what, place, fix)])
        rows = self._splits[part.split]
        if part.process is not None:
            rows = _processed(rows, part.process)
        table = _table(rows, part.process or self._origin)
        if not table:
            after = " after process_docs" if part.process is not None else ""
            what = f"{part.key}: the split {part.split!r} has no documents{after}"
            raise TaskFileError([Problem(what, place)])
        return table


def _processed(rows: Any, process: Field) -> Any:
    """What the user's function makes of a split, without the cache on disk, which would
    bring back the random numbers of an earlier run."""
    import datasets

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
        what = str(error)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - somebody's generator
        what = fault_of(error)
    raise TaskFileError([Problem(f"{origin.key}: {what}", origin.place)])


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
    fix = "name the split to evaluate: test_split: test"
    what = f"{recipe.name!r} has neither a test_split nor a validation_split"
    raise TaskFileError([Problem(what, recipe.place, fix)])


def _pool_part(recipe: Recipe) -> _Part | None:
    """The split that shots come from; ``None`` if the task file lists them."""
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
    """The global random generators, seeded inside and as before behind; gives a
    function that says whether anybody has drawn from them."""
    import numpy as np

    python_state, numpy_state = random.getstate(), np.random.get_state()
    random.seed(_PYTHON_SEED)
    np.random.seed(_NUMPY_SEED)
    start = _states()

    def moved() -> bool:
        return _states() != start

    try:
        yield moved
    finally:
        random.setstate(python_state)
        np.random.set_state(numpy_state)


def _states() -> tuple[object, bytes, int]:
    import numpy as np

    state: Any = np.random.get_state()
    return random.getstate(), state[1].tobytes(), state[2]
