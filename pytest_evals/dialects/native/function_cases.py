"""Cases that a function returns or yields."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pytest_evals.core.case import Case, case
from pytest_evals.data.calls import FieldError
from pytest_evals.dialects.native.cases import (
    EvalCases,
    checked_first,
    listed_cases,
)
from pytest_evals.dialects.native.choices import check_choices
from pytest_evals.errors import DocumentError, EvalsError, Place, Problem, TaskFileError
from pytest_evals.prompts.case_files import CaseFolders
from pytest_evals.scorers.functions import result_of
from pytest_evals.scorers.user_code import user_fault, user_place


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
                what = (
                    f"cases {first} and {number} have the id {one.id or str(number)!r}"
                )
                raise self.error(what, "give each case its own id, or none")
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
            what = f"case {name!r}: {error.problem.what}"
            raise self.error(what, error.problem.fix) from None

    def _call(
        self, values: Mapping[str, Any], parameters: Mapping[str, Any]
    ) -> list[Case]:
        values = {**values, **parameters}
        missing = [one for one in self.fixtures if one not in values]
        if missing:
            what = f"requests the fixture {missing[0]!r}, which only pytest provides"
            fix = f"run pytest {self.place.path}"
            problem = Problem(f"{self.name} {what}", self.place, fix)
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
            what = user_fault(f"the cases of {self.name}", error)
            ours = isinstance(error, EvalsError)  # its text contains no line
            place = user_place(error.__traceback__) if ours else None
            raise TaskFileError([Problem(what, place or self.place)]) from None
        cases = [self._case(number, one) for number, one in enumerate(listed)]
        if not parameters:
            return cases
        return [replace(one, row={**parameters, **one.row}) for one in cases]

    def _case(self, number: int, given: Any) -> Case:
        if isinstance(given, Case):
            return given
        if not isinstance(given, Mapping) or "prompt" not in given:
            what = f"case {number} is a {type(given).__name__}, not a case"
            fix = 'yield pytest_evals.case("2 + 2 =", target="4")'
            raise self.error(what, fix)
        try:
            return case(**{str(key): value for key, value in given.items()})
        except DocumentError as error:
            raise self.error(f"case {number}: {error}") from None

    def error(self, what: str, fix: str = "") -> TaskFileError:
        """An error at the eval."""
        return TaskFileError([Problem(f"{self.name}: {what}", self.place, fix)])


async def _listed(cases: AsyncIterable[Any]) -> list[Any]:
    return [one async for one in cases]
