"""The cases of an eval as the documents of a task."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from pytest_evals.core.case import Case
from pytest_evals.core.task import TaskOptions
from pytest_evals.data.calls import ColumnError
from pytest_evals.data.rows import Ids, SelectedRows, Table, document_ids, row_sizes
from pytest_evals.errors import (
    DocumentError,
    Place,
    Problem,
    TaskFileError,
    nearest,
)
from pytest_evals.prompts.case_files import CaseFileError, CaseFolders

MOST_ROWS = 1_000
"""Rows of an eval that are checked before the run."""
RowPlace = Callable[[int], Place]
"""Position of a row → its file and line."""
NO_VALUES: Mapping[str, Any] = MappingProxyType({})


class ParameterSet(NamedTuple):
    """Arguments of the function that yields cases, for one variant of an eval.

    Args:
        id: Name of the variant; empty without variants.
        values: The arguments by name; rows of the cases have them too.
    """

    id: str
    values: Mapping[str, Any]


ONE_SET = ParameterSet("", NO_VALUES)


def case_folders(path: Path, options: TaskOptions, dataset: str = "") -> CaseFolders:
    """Where the files of an eval's cases are: next to its file, or to its dataset."""
    folder, root = path.absolute().parent, Path(options.root)
    base = [folder]
    if dataset:
        places = [place / dataset for place in (folder, Path(options.base or "."))]
        base += [place.absolute().parent for place in places if os.path.isfile(place)]
    is_inside = bool(options.root) and folder.resolve().is_relative_to(root.resolve())
    return CaseFolders(base=base, root=root if is_inside else folder)


class EvalCases:
    """Cases by position, built from rows."""

    def __init__(
        self,
        table: Table,
        build: Callable[[int, Mapping[str, Any]], Case],
        id_column: str = "",
        rows: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        """Keep the rows.

        Args:
            id_column: Column with ids; by default one of the usual names.
            rows: Rows of the cases, if not those of the table.
        """
        self._table, self._build, self._id_column = table, build, id_column
        self._rows = rows

    def __len__(self) -> int:
        return len(self._table)

    def ids(self) -> Ids:
        """Ids from their column, else positions."""
        if not self._id_column:
            return document_ids(self._table)
        column = self._table.column(self._id_column)
        return document_ids(Table([{"id": one} for one in column]))

    def case(self, index: int) -> Case:
        """The case at a position.

        Raises:
            DocumentError: It cannot be built.
        """
        return self._build(index, self._table[index])

    def mapped(self, function: Callable[[Case], Case]) -> EvalCases:
        """The cases that a function makes of these."""

        def build(index: int, row: Mapping[str, Any]) -> Case:
            return function(self._build(index, row))

        return EvalCases(self._table, build, self._id_column, self._rows)

    def sizes(self, indices: Sequence[int]) -> Sequence[int]:
        """Bytes of text of rows."""
        return row_sizes([self._table[n] for n in indices])

    def rows(self) -> Sequence[Mapping[str, Any]]:
        """The rows of the first cases: all that are in memory, at least one."""
        if self._rows is not None:
            return self._rows
        return self._table if self._table.in_memory else self._table[:1]


def listed_cases(cases: Sequence[Case], folders: CaseFolders) -> EvalCases:
    """Cases that exist already; one without an id is called by its position."""
    table = [
        {"id": one.id or str(n), "prompt": one.prompt} for n, one in enumerate(cases)
    ]
    rows = [one.row for one in cases]
    return EvalCases(
        Table(table), lambda index, _row: folders.case(cases[index]), "id", rows
    )


class CaseRows(SelectedRows):
    """The cases to run."""

    def __init__(self, load: Callable[[], EvalCases], options: TaskOptions) -> None:
        super().__init__(options)
        self._load = load

    @cached_property
    def cases(self) -> EvalCases:
        """All cases."""
        return self._load()

    @property
    def own(self) -> Sequence[int]:
        """Positions of all cases."""
        return range(len(self.cases))

    def _load_ids(self) -> Ids:
        return self.cases.ids()

    def _sizes_of(self, indices: Sequence[int]) -> Sequence[int]:
        return self.cases.sizes(indices)


def checked_first(
    cases: EvalCases,
    where: Place,
    n: int = 1,
    place_of: RowPlace | None = None,
    *,
    is_data: bool = False,
) -> EvalCases:
    """Return the cases if the first ``n`` can be built.

    Args:
        place_of: Where rows are; a problem that only some have is reported there.
        is_data: Whether rows are in a data file: other errors than missing values are
            then errors of their documents, unless the first row has one.

    Raises:
        TaskFileError: There are no cases, or one cannot be built.
    """
    if not len(cases):
        what, fix = (
            "the eval has no cases",
            'yield pytest_evals.case("2 + 2 =", target="4")',
        )
        if place_of is not None:
            what, fix, where = "the dataset has no rows", "", place_of(0)
        raise TaskFileError([Problem(what, where, fix)])
    faults = dict[int, DocumentError]()
    for index in range(n):
        try:
            cases.case(index)
        except DocumentError as error:
            is_file = isinstance(error, CaseFileError)
            if not is_data or index == 0 or is_file or _missing(error):
                faults[index] = error
    if not faults:
        return cases
    is_first = is_data and 0 in faults and not _missing(faults[0])
    if place_of is None or len(faults) == n or is_first:
        found = [
            _file_problem(one, index, where, place_of)
            if isinstance(one, CaseFileError)
            else getattr(one, "problem", None) or Problem(str(one), where)
            for index, one in faults.items()
        ]
        raise TaskFileError(dict.fromkeys(found))
    ids, rows = cases.ids().ids, cases.rows()
    raise TaskFileError(
        _row_problem(one, rows[index] if index < len(rows) else {}, ids[index], place)
        for index, one in faults.items()
        for place in [place_of(index)]
    )


def _file_problem(
    error: DocumentError, index: int, where: Place, place_of: RowPlace | None
) -> Problem:
    """The problem of a file that a row names, at its line if that is known."""
    if place_of is not None:
        return Problem(str(error), place_of(index))
    return Problem(f"row {index}: {error}", where)


def _row_problem(
    error: DocumentError, row: Mapping[str, Any], id_: str, place: Place
) -> Problem:
    """The problem of one row of several, at its line. ``error``: of building its
    case."""
    problem = getattr(error, "problem", None) or Problem(str(error), place)
    column = _missing(error)
    if problem.where == place:
        return problem
    if not isinstance(error, ColumnError) or not column:
        return Problem(f"row {id_!r}: {problem.what}", place, problem.fix)
    key = problem.what.partition(" ")[0].rstrip(":")
    what = f"row {id_!r} has no {column!r}, which {key} uses"
    if near := nearest(column, row):
        what = f"row {id_!r} has {near!r}; did you mean {column!r}, which {key} uses?"
    return Problem(what, place, f"add it, or write {{{{ {column}|default('') }}}}")


def _missing(error: DocumentError) -> str:
    """The column whose value is missing, if that is the error."""
    return str(getattr(error, "column", ""))
