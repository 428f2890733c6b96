"""Reads ``definition.dataset``: one dataset, several aligned ones, or the results of
another task."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pytest_evals.dialects.yaml_reader.section import Section
from pytest_evals.errors import Place, Problem, TaskFileError, suggestion
from pytest_evals.guests.latticeflow.fields import entry_problem
from pytest_evals.guests.latticeflow.samples import ID, Rows
from pytest_evals.guests.latticeflow.substitution import parameter_of
from pytest_evals.guests.latticeflow.suite import EntitySuite
from pytest_evals.guests.latticeflow.task_rows import Samples

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
