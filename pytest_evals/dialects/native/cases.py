"""The cases of an eval as the documents of a task: of rows, or those that a function
returns or yields."""

from __future__ import annotations

import inspect
import os
from collections.abc import AsyncIterable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from pytest_evals.core.case import Case, case
from pytest_evals.core.task import TaskOptions
from pytest_evals.data.calls import ColumnError, FieldError
from pytest_evals.data.rows import Ids, SelectedRows, Table, document_ids, row_sizes
from pytest_evals.dialects.native.choices import check_choices
from pytest_evals.errors import (
    DocumentError,
    EvalsError,
    Place,
    Problem,
    TaskFileError,
    nearest,
)
from pytest_evals.prompts.case_files import CaseFileError, CaseFolders
from pytest_evals.scorers.functions import result_of
from pytest_evals.scorers.user_code import user_fault, user_place

MOST_ROWS = 1_000  # rows of an eval that are checked before the run
RowPlace = Callable[[int], Place]  # position of a row → its file and line
NO_VALUES: Mapping[str, Any] = MappingProxyType({})


class ParameterSet(NamedTuple):
    """Arguments of the function that yields cases, for one variant of an eval. ``id``:
    name of the variant; empty without variants. ``values``: the arguments by name; rows
    of the cases have them too."""

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
        """Keep the rows. ``id_column``: column with ids; by default one of the usual
        names. ``rows``: rows of the cases, if not those of the table."""
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
        """The case at a position. Raises DocumentError if it cannot be built."""
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
    def positions(self) -> Sequence[int]:
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
    """Return the cases if the first ``n`` can be built. ``place_of``: where rows are; a
    problem that only some have is reported there. ``is_data``: whether rows are in a
    data file: other errors than missing values are then errors of their documents,
    unless the first row has one. Raises TaskFileError if there are no cases, or one
    cannot be built."""
    if not len(cases):
        message, fix = (
            "the eval has no cases",
            'yield pytest_evals.case("2 + 2 =", target="4")',
        )
        if place_of is not None:
            message, fix, where = "the dataset has no rows", "", place_of(0)
        raise TaskFileError([Problem(message, where, fix)])
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
        return Problem(f"row {id_!r}: {problem.message}", place, problem.fix)
    key = problem.message.partition(" ")[0].rstrip(":")
    message = f"row {id_!r} has no {column!r}, which {key} uses"
    if near := nearest(column, row):
        message = (
            f"row {id_!r} has {near!r}; did you mean {column!r}, which {key} uses?"
        )
    return Problem(message, place, f"add it, or write {{{{ {column}|default('') }}}}")


def _missing(error: DocumentError) -> str:
    """The column whose value is missing, if that is the error."""
    return str(getattr(error, "column", ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class CasesFunction:
    """The function of an eval, and its fixtures."""

    name: str
    place: Place
    function: Callable[..., Any]
    choices_by: str = ""
    used: Sequence[str] = ()
    """Arguments of the eval that are set and have no effect on choices."""

    @property
    def fixtures(self) -> tuple[str, ...]:
        """Names of fixtures that the function requests."""
        variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        parameters = inspect.signature(self.function).parameters.values()
        required = [one for one in parameters if one.default is one.empty]
        return tuple(one.name for one in required if one.kind not in variadic)

    def listed(
        self,
        values: Mapping[str, Any],
        parameters: Mapping[str, Any],
        folders: CaseFolders,
        tools: Callable[[Mapping[str, Any]], str] | None = None,
    ) -> EvalCases:
        """All cases, if there are any, their ids differ, and choices and tools fit.

        Args:
            values: Values of the fixtures.
            parameters: Other arguments, which the rows of the cases have too.
            folders: Where files of cases are.
            tools: Returns the tools of a row.

        Raises:
            TaskFileError: They are not cases, or the function fails.
        """
        cases = self._call(values, parameters)
        listed, seen = listed_cases(cases, folders), dict[str, int]()
        has_files = any(one.files for one in cases)
        checked_first(listed, self.place, n=len(cases) if has_files else 1)
        for number, one in enumerate(cases):
            first = seen.setdefault(one.id or str(number), number)
            if first != number:
                message = (
                    f"cases {first} and {number} have the id {one.id or str(number)!r}"
                )
                raise self.error(message, "give each case its own id, or none")
            if tools is not None:
                self._check_tools(tools, one, one.id or str(number))
        try:
            check_choices(cases, self.choices_by, self.used)
        except EvalsError as error:
            raise self.error(str(error)) from None
        return listed

    def _check_tools(
        self, tools: Callable[[Mapping[str, Any]], str], one: Case, name: str
    ) -> None:
        try:
            tools(one.row)
        except FieldError as error:
            message = f"case {name!r}: {error.problem.message}"
            raise self.error(message, error.problem.fix) from None

    def _call(
        self, values: Mapping[str, Any], parameters: Mapping[str, Any]
    ) -> list[Case]:
        values = {**values, **parameters}
        missing = [one for one in self.fixtures if one not in values]
        if missing:
            message = f"requests the fixture {missing[0]!r}, which only pytest provides"
            fix = f"run pytest {self.place.path}"
            problem = Problem(f"{self.name} {message}", self.place, fix)
            raise TaskFileError([problem])
        try:
            given = self.function(**{one: values[one] for one in self.fixtures})
            if inspect.isawaitable(given):
                given = result_of(given)
            if isinstance(given, AsyncIterable):
                given = result_of(_listed(given))
            given = [given] if isinstance(given, Case) else given
            listed = [] if given is None else list(given)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - of any user code
            message = user_fault(f"the cases of {self.name}", error)
            ours = isinstance(error, EvalsError)  # its text contains no line
            place = user_place(error.__traceback__) if ours else None
            raise TaskFileError([Problem(message, place or self.place)]) from None
        cases = [self._case(number, one) for number, one in enumerate(listed)]
        if not parameters:
            return cases
        return [replace(one, row={**parameters, **one.row}) for one in cases]

    def _case(self, number: int, given: Any) -> Case:
        if isinstance(given, Case):
            return given
        if not isinstance(given, Mapping) or "prompt" not in given:
            message = f"case {number} is a {type(given).__name__}, not a case"
            fix = 'yield pytest_evals.case("2 + 2 =", target="4")'
            raise self.error(message, fix)
        try:
            return case(**{str(key): value for key, value in given.items()})
        except DocumentError as error:
            raise self.error(f"case {number}: {error}") from None

    def error(self, message: str, fix: str = "") -> TaskFileError:
        """An error at the eval."""
        return TaskFileError([Problem(f"{self.name}: {message}", self.place, fix)])


async def _listed(cases: AsyncIterable[Any]) -> list[Any]:
    return [one async for one in cases]
