"""Custom scorers: functions of an answer and its case.

Arguments are passed by name; see :data:`ARGUMENTS`. A function without any of these
names gets answer and case by position. Every other name without a default is a fixture
of pytest.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import math
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from pytest_evals.core.case import Case
from pytest_evals.core.record import Score
from pytest_evals.core.request import Response
from pytest_evals.errors import DocumentError, EvalsError
from pytest_evals.models.http.event_loop import LOOK_S, BackgroundLoop
from pytest_evals.scorers.answers import binary
from pytest_evals.scorers.templates import ScorerTemplate
from pytest_evals.scorers.user_code import UserCode

ARGUMENTS: Mapping[str, Callable[[str, Case, Response], Any]] = {
    "answer": lambda answer, case, response: answer,
    "output": lambda answer, case, response: answer,
    "case": lambda answer, case, response: case,
    "input": lambda answer, case, response: case.prompt,
    "prompt": lambda answer, case, response: case.prompt,
    "expected": lambda answer, case, response: case.target,
    "target": lambda answer, case, response: case.target,
    "metadata": lambda answer, case, response: case.row,
    "row": lambda answer, case, response: case.row,
    "response": lambda answer, case, response: response,
}
"""Name of a scorer's argument → its value."""
_BY_POSITION = ("answer", "case")
CONCURRENT = 16  # most async scorers that run at a time
Started = Future[tuple[Any, Exception | None]]
"""The result of an async function that runs in the background, or its exception."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionScorer:
    """A custom scorer."""

    name: str
    function: Callable[..., Any]
    """Returns a bool, a finite number, a :class:`Score`, or an awaitable."""
    passed: tuple[str, ...]
    """Names of :data:`ARGUMENTS`, in the order of the parameters that get them; by
    position if ``by_name`` is false."""
    by_name: bool  # whether arguments are passed by name
    fixtures: tuple[str, ...] = ()
    values: dict[str, Any] = field(default_factory=dict)
    """Those of the fixtures; set before a case is scored. The other fields are those of
    :class:`~pytest_evals.scorers.answers.AnswerScorer`."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    limits: tuple[float, float] | None = None
    is_graded: bool = True
    templates: tuple[ScorerTemplate, ...] = ()

    @property
    def is_async(self) -> bool:
        """Whether the function is a coroutine function."""
        call = getattr(self.function, "__call__", None)  # noqa: B004 - of an object
        return any(map(inspect.iscoroutinefunction, (self.function, call)))

    def start(self, answer: str, case: Case, response: Response) -> Started | None:
        """Start an async function in the background; ``None`` if it is not async, or
        values of its fixtures are missing."""
        if not self.is_async or any(one not in self.values for one in self.fixtures):
            return None
        return _loop().start(_caught(self._limited(answer, case, response)))

    async def _limited(self, answer: str, case: Case, response: Response) -> Any:
        async with _limit():
            return await self._call(answer, case, response)

    def _call(self, answer: str, case: Case, response: Response) -> Any:
        if self.passed != ("answer",):  # a function may change what it is given
            case = replace(case, row=_copied(case.row), target=_copied(case.target))
        given = [ARGUMENTS[one](answer, case, response) for one in self.passed]
        if not self.by_name:
            return self.function(*given)
        named = dict(zip(self.passed, given, strict=True))
        return self.function(**named, **self._fixture_values())

    def __call__(
        self,
        answer: str,
        case: Case,
        response: Response,
        started: Started | None = None,
    ) -> Score:
        """Return the score of an answer. ``started``: the function's result, if
        :meth:`start` started it. Raises DocumentError if the function raised an
        exception, with its file and line; or it returned something else."""
        message = f"scorer {self.name!r}"
        with UserCode(message):
            if started is not None:
                value = _finished(started)
            else:
                value = self._call(answer, case, response)
            if inspect.isawaitable(value):
                value = result_of(value)
        try:
            score = score_of_value(value, answer)
        except DocumentError as error:
            raise DocumentError(f"{message}: {error}") from None
        _check_range(score.value, self.limits, message)
        return replace(score, metric=self.name)

    def _fixture_values(self) -> Mapping[str, Any]:
        missing = [one for one in self.fixtures if one not in self.values]
        if missing:
            raise EvalsError(
                f"the argument {missing[0]!r} is a fixture, which only pytest provides"
            )
        return {one: self.values[one] for one in self.fixtures}


def _check_range(value: Any, limits: tuple[float, float] | None, label: str) -> None:
    if limits is None or not isinstance(value, (int, float)):
        return
    low, high = limits
    if not low <= value <= high:
        raise DocumentError(
            f"{label} returned {value:g}, outside of its range [{low:g}, {high:g}]"
        )


def score_of_value(value: object, answer: str) -> Score:
    """Convert the return value of a custom scorer. ``value``: a boolean, a finite
    number or a :class:`Score`. ``answer``: shown if the score itself has no answer.
    Raises DocumentError if it is something else."""
    if isinstance(value, Score):
        if value.unscored:
            return value
        number = _number(value.correct if value.value is None else value.value)
        if number is None:
            raise _no_number(value.value, "a Score whose value is ")
        correct = _correct(number) if value.correct is None else value.correct
        answer = value.answer or answer
        return replace(value, value=number, correct=correct, answer=answer)
    number = _number(value)
    if isinstance(number, bool):
        return binary(number, "", answer)
    if number is None:
        raise _no_number(value)
    return Score(metric="", value=number, correct=_correct(number), answer=answer)


def _number(value: Any) -> bool | int | float | None:
    """A boolean or a finite number, also of NumPy or torch; ``None`` for anything
    else."""
    try:
        value = value.item() if hasattr(value, "item") else value
        is_number = isinstance(value, int | float) and math.isfinite(value)
    except (OverflowError, RuntimeError, TypeError, ValueError):
        return None
    return value if is_number else None


def _no_number(value: object, begin: str = "") -> DocumentError:
    shown = "None" if value is None else f"a {type(value).__name__}"
    if isinstance(value, int | float):
        shown = repr(value) if isinstance(value, float) else "too large a number"
    return DocumentError(
        f"the scorer returned {begin}{shown}\n"
        "  fix: return True or False, a finite number, or a pytest_evals.Score"
    )


def _correct(value: Any) -> bool | None:
    return bool(value) if value in (0, 1) else None


def function_scorer(
    function: Callable[..., Any],
    name: str = "",
    limits: tuple[float, float] | None = None,
) -> FunctionScorer:
    """Return the scorer of a function. ``name``: name of the metric; by default that of
    the function. ``limits``: smallest and largest value; ``None`` if unknown. Raises
    EvalsError if it has no name, or arguments that cannot be passed."""
    name = name or getattr(function, "__name__", "") or type(function).__name__
    if name == "<lambda>":
        raise EvalsError("a scorer that is a lambda has no name\n  fix: use def")
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        raise EvalsError(f"scorer {name!r} has no signature that can be read") from None
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    listed = [one for one in parameters if one.kind not in variadic]
    required = [one.name for one in listed if one.default is inspect.Parameter.empty]
    passed = tuple(one.name for one in listed if one.name in ARGUMENTS)
    fixtures: tuple[str, ...] = ()
    if passed:
        fixtures = tuple(one for one in required if one not in ARGUMENTS)
    elif 1 <= len(required) <= len(_BY_POSITION):
        passed = _BY_POSITION[: len(required)]
    else:
        known = ", ".join(ARGUMENTS)
        raise EvalsError(
            f"scorer {name!r} needs the argument answer\n  fix: def {name}(answer, "
            f"case); arguments: {known}, and fixtures"
        )
    returned = getattr(function, "__annotations__", {}).get("return")
    is_bool = returned in (bool, "bool")
    return FunctionScorer(
        name=name,
        function=function,
        passed=passed,
        by_name=passed[0] in [one.name for one in listed],
        fixtures=fixtures,
        settings={"function": name, "source": _source_hash(function)},
        limits=(0.0, 1.0) if limits is None and is_bool else limits,
        is_graded=not is_bool,
    )


def _copied(value: Any) -> Any:
    """A copy of mappings and lists; other values are not copied."""
    if isinstance(value, Mapping):
        return {name: _copied(one) for name, one in value.items()}
    return [*map(_copied, value)] if type(value) is list else value


def result_of(awaitable: Awaitable[Any]) -> Any:
    """Return the result of an awaitable, run in the background event loop.

    Raises:
        Exception: That of the awaitable; its traceback begins in the user's code.
    """
    return _finished(_loop().start(_caught(awaitable)))


def _finished(started: Started) -> Any:
    """The result of a started function; an interrupt cancels it."""
    try:
        while True:
            try:
                value, error = started.result(timeout=LOOK_S)
                break
            except TimeoutError:
                continue
    except BaseException:
        started.cancel()
        raise
    if error is not None:
        raise error
    return value


async def _caught(awaitable: Awaitable[Any]) -> tuple[Any, Exception | None]:
    try:
        return await awaitable, None
    except Exception as error:  # noqa: BLE001 - raised again by the caller
        return None, error


_limit = cache(lambda: asyncio.Semaphore(CONCURRENT))
_loop = cache(BackgroundLoop)  # the event loop of this process for functions of users


def _source_hash(function: Callable[..., Any]) -> str:
    try:
        source = inspect.getsource(function)
    except (OSError, TypeError):
        return ""
    return hashlib.sha256(source.encode()).hexdigest()[:16]
