"""The cases of an eval as the documents of a task."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol

from pytest_evals.core.case import Case
from pytest_evals.core.task import TaskOptions
from pytest_evals.data.rows import Ids, Table, document_ids, row_sizes, selection
from pytest_evals.errors import DocumentError, Problem, TaskFileError


class CaseSource(Protocol):
    """Cases by position."""

    def __len__(self) -> int:
        """Number of cases."""
        ...

    def ids(self) -> Ids:
        """An id for each case."""
        ...

    def case(self, index: int) -> Case:
        """The case at a position.

        Raises:
            DocumentError: It cannot be built.
        """
        ...

    def sizes(self, indices: Sequence[int]) -> Sequence[int]:
        """Bytes of text of cases."""
        ...


class ListedCases:
    """Cases that exist already, as those of Python functions do."""

    def __init__(self, cases: Sequence[Case]) -> None:
        self._cases = cases

    def __len__(self) -> int:
        """Number of cases."""
        return len(self._cases)

    def ids(self) -> Ids:
        """The given ids; a case without one is called by its position."""
        named = [one.id or str(n) for n, one in enumerate(self._cases)]
        return document_ids(Table([{"id": one} for one in named]))

    def case(self, index: int) -> Case:
        """The case at a position."""
        return self._cases[index]

    def sizes(self, indices: Sequence[int]) -> Sequence[int]:
        """Bytes of text of cases."""
        return row_sizes([{"prompt": self._cases[n].prompt} for n in indices])


class RowCases:
    """Cases from the rows of a dataset or of a file."""

    def __init__(
        self,
        table: Table,
        build: Callable[[Mapping[str, Any]], Case],
        id_column: str = "",
    ) -> None:
        """Keep the rows.

        Args:
            table: The rows.
            build: Row → case. Raises ``DocumentError``.
            id_column: Column with ids; by default one of the usual names.
        """
        self._table, self._build, self._id_column = table, build, id_column

    def __len__(self) -> int:
        """Number of rows."""
        return len(self._table)

    def ids(self) -> Ids:
        """Ids from their column, else positions."""
        if not self._id_column:
            return document_ids(self._table)
        column = self._table.column(self._id_column)
        return document_ids(Table([{"id": one} for one in column]))

    def case(self, index: int) -> Case:
        """The case of a row."""
        return self._build(self._table[index])

    def sizes(self, indices: Sequence[int]) -> Sequence[int]:
        """Bytes of text of rows."""
        return row_sizes([self._table[n] for n in indices])


class CaseRows:
    """The cases to run (:class:`~pytest_evals.core.task.SizedRows`), loaded when they
    are first needed."""

    def __init__(self, load: Callable[[], CaseSource], options: TaskOptions) -> None:
        self._load, self._options = load, options

    def ids(self) -> Sequence[str]:
        """Unique ids of the documents to run.

        Raises:
            TaskFileError: The cases cannot be loaded.
        """
        return [self._ids.ids[n] for n in self._indices]

    def indices(self) -> Sequence[int]:
        """Their positions among all cases."""
        return self._indices

    def total(self) -> int:
        """Number of cases before limit or sample."""
        return len(self.cases)

    def sizes(self) -> Sequence[int]:
        """Bytes of text of the documents to run."""
        return self.cases.sizes(self._indices)

    def id(self, index: int) -> str:
        """The id of the case at a position."""
        return self._ids.ids[index]

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about ids, once they were read."""
        return self._ids.warnings if "_ids" in self.__dict__ else ()

    @cached_property
    def cases(self) -> CaseSource:
        """All cases."""
        return self._load()

    @cached_property
    def _ids(self) -> Ids:
        return self.cases.ids()

    @cached_property
    def _indices(self) -> Sequence[int]:
        options = self._options
        return selection(len(self.cases), options.limit, options.sample, options.seed)


def checked_first(cases: CaseSource, where: Any) -> CaseSource:
    """Return the cases if the first one can be built.

    Raises:
        TaskFileError: There are no cases, or the first one cannot be built.
    """
    if not len(cases):
        raise TaskFileError([Problem("the eval has no cases", where)])
    try:
        cases.case(0)
    except DocumentError as error:
        problem = getattr(error, "problem", None) or Problem(str(error), where)
        raise TaskFileError([problem]) from error
    return cases
