"""Evals as Python functions: ``@eval()`` on a function that yields cases."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar, overload

from pytest_evals.core.case import Case
from pytest_evals.core.dialogue import ModelSource
from pytest_evals.core.gate import Gate
from pytest_evals.core.model import ModelLike
from pytest_evals.core.task import MOST_REPEATS, Task, TaskOptions
from pytest_evals.dialects.gates_section.anchors import read_gates
from pytest_evals.dialects.native.cases import (
    NO_VALUES,
    ONE_CALL,
    ListedCases,
    ParameterSet,
    checked_first,
)
from pytest_evals.dialects.native.labels import with_labels
from pytest_evals.dialects.native.remedies import python_remedies
from pytest_evals.dialects.native.scorers import scorers_of
from pytest_evals.dialects.native.task import (
    EvalParts,
    Scorer,
    eval_task,
    sampling_of,
)
from pytest_evals.errors import (
    DocumentError,
    EvalsError,
    Place,
    Problem,
    TaskFileError,
    unknown_name,
)
from pytest_evals.gates.read.text import with_unique_ids
from pytest_evals.scorers.functions import FunctionScorer, result_of
from pytest_evals.scorers.rubric import RubricScorer
from pytest_evals.scorers.user_code import user_fault

Function = TypeVar("Function", bound=Callable[..., Any])
ModelGiven = str | ModelLike | Callable[..., Any] | None


class Eval:
    """An eval: cases, scorers and gates.

    :func:`eval` returns it; pytest collects it from test modules, and ``evaluate()``
    accepts it.
    """

    pytestmark: Any = ()
    """Markers of pytest, from the function or applied to the eval."""

    def __init__(
        self,
        cases: Callable[..., Any],
        *,
        name: str,
        place: Place,
        settings: EvalSettings,
    ) -> None:
        """Use :func:`eval`.

        Args:
            cases: Returns or yields cases.
            name: Unique in the session.
            place: Where it is defined.
            settings: The arguments of the decorator.
        """
        self.cases, self.name, self.place = cases, name, place
        self.settings = settings
        self.scorers: list[Any] = []
        """Scorers that :meth:`score` has added."""
        self.__name__ = getattr(cases, "__name__", name)
        self.__doc__ = cases.__doc__
        self.__module__ = cases.__module__
        self.pytestmark = [*getattr(cases, "pytestmark", ())]

    def __repr__(self) -> str:
        """Name and place."""
        return f"<Eval {self.name} at {self.place}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        return self.cases(*args, **kwargs)

    @overload
    def score(self, function: Function, /) -> Function: ...

    @overload
    def score(self, name: str = "", /) -> Callable[[Function], Function]: ...

    def score(self, function: Any = "", /) -> Any:
        """Add a scorer: ``@support_bot.score`` or ``@support_bot.score("polite")``.

        The function gets the answer and the case, by name or by position, and returns
        a bool, a number or a :class:`~pytest_evals.core.record.Score`. Its other
        arguments are fixtures.

        Args:
            function: The function, or the name of the metric; by default the
                function's name.
        """
        if not isinstance(function, str):
            self.scorers.append(("", function))
            return function
        name = function

        def add(scorer: Function) -> Function:
            self.scorers.append((name, scorer))
            return scorer

        return add

    @property
    def fixtures(self) -> tuple[str, ...]:
        """Names of fixtures that the function requests."""
        variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        parameters = inspect.signature(self.cases).parameters.values()
        return tuple(
            one.name
            for one in parameters
            if one.default is one.empty and one.kind not in variadic
        )

    def parts(
        self,
        options: TaskOptions,
        values: Mapping[str, Any] = NO_VALUES,
        calls: Sequence[ParameterSet] = ONE_CALL,
    ) -> EvalParts:
        """The parts of the eval; the function is not called yet.

        Args:
            options: Options of the run.
            values: Values of the fixtures that the function requests.
            calls: The function is called once for each, and all cases are the eval's.

        Raises:
            TaskFileError: With all problems of its arguments.
        """
        settings, problems = self.settings, list[Problem]()

        def checked(make: Callable[[], Any], default: Any) -> Any:
            try:
                return make()
            except TaskFileError as error:
                problems.extend(error.problems)
            except EvalsError as error:
                problems.append(Problem(f"{self.name}: {error}", self.place))
            return default

        scorers = checked(self._scorers, ())
        sampling = checked(lambda: sampling_of(settings.generation, options), None)
        model = checked(lambda: _model_source(settings.model), None)
        gates = checked(self._gates, ())
        checked(lambda: _check_repeats(settings.repeats), None)
        if problems:
            raise TaskFileError(dict.fromkeys(problems))
        shown = settings.model if isinstance(settings.model, str) else None
        return EvalParts(
            name=self.name,
            source=self.place,
            load=lambda: self._cases(values, calls),
            scorers=scorers,
            sampling=sampling.sampling,
            repeats=settings.repeats,
            system=settings.system,
            model=model,
            gates=gates,
            tags=settings.tags,
            version=settings.version,
            config={
                "system": settings.system,
                "generation": dict(settings.generation),
                "model": shown,
                "metadata": {"version": settings.version},
            },
            remedies=python_remedies(scorers),
            warnings=sampling.warnings,
        )

    def task(self, options: TaskOptions, values: Mapping[str, Any] = NO_VALUES) -> Task:
        """The task of the eval.

        Raises:
            TaskFileError: With all problems of its arguments.
        """
        return eval_task(self.parts(options, values), options)

    def _scorers(self) -> tuple[Scorer, ...]:
        found = scorers_of(self.settings.score, self.scorers)
        return tuple(
            with_labels(one, self.place) if isinstance(one, RubricScorer) else one
            for one in found
        )

    def _gates(self) -> tuple[Gate, ...]:
        found = list[Gate]()
        for entry in self.settings.gates:
            found += read_gates(entry, task=self.name, source=self.place)
        return with_unique_ids(found)

    def _cases(
        self, values: Mapping[str, Any], calls: Sequence[ParameterSet]
    ) -> ListedCases:
        cases = [one for call in calls for one in self._call(values, call)]
        return ListedCases(self._checked(cases))

    def _call(self, values: Mapping[str, Any], call: ParameterSet) -> list[Case]:
        """The cases of one call of the function."""
        values = {**values, **call.values}
        missing = [one for one in self.fixtures if one not in values]
        if missing:
            what = (
                f"{self.name} requests the fixture {missing[0]!r}, which only pytest "
                "provides"
            )
            fix = f"run pytest {self.place.path}"
            raise TaskFileError([Problem(what, self.place, fix)])
        try:
            given = self.cases(**{one: values[one] for one in self.fixtures})
            if inspect.isawaitable(given):
                given = result_of(given)
            if isinstance(given, AsyncIterable):
                given = result_of(_listed(given))
            listed = [] if given is None else list(given)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - of any user code
            what = user_fault(f"the cases of {self.name}", error)
            raise TaskFileError([Problem(what, self.place)]) from None
        cases = [self._case(number, one) for number, one in enumerate(listed)]
        if not call.id:
            return cases
        return [
            replace(
                one,
                id=f"{call.id}-{one.id or number}",
                row={**call.values, **one.row},
            )
            for number, one in enumerate(cases)
        ]

    def _case(self, number: int, given: Any) -> Case:
        if isinstance(given, Case):
            return given
        if isinstance(given, Mapping) and "prompt" in given:
            values = dict(given)
            prompt, target = values.pop("prompt"), values.pop("target", None)
            id_ = str(values.pop("id", ""))
            try:
                return Case(prompt=prompt, target=target, id=id_, row=values)
            except DocumentError as error:
                what = f"{self.name}: case {number}: {error}"
                raise TaskFileError([Problem(what, self.place)]) from None
        what = f"{self.name}: case {number} is a {type(given).__name__}, not a case"
        fix = 'yield pytest_evals.case("2 + 2 =", target="4")'
        raise TaskFileError([Problem(what, self.place, fix)])

    def _checked(self, cases: Sequence[Case]) -> Sequence[Case]:
        """The cases, if there are any and their ids differ."""
        checked_first(ListedCases(cases), self.place)
        seen = dict[str, int]()
        for number, one in enumerate(cases):
            first = seen.setdefault(one.id or str(number), number)
            if first != number:
                what = f"{self.name}: cases {first} and {number} have the id {one.id!r}"
                fix = "give each case its own id, or none"
                raise TaskFileError([Problem(what, self.place, fix)])
        return cases


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalSettings:
    """The arguments of :func:`eval`."""

    score: tuple[Any, ...] = ()
    gates: tuple[Any, ...] = ()
    model: ModelGiven = None
    system: str = ""
    generation: Mapping[str, Any] = field(default_factory=dict)
    repeats: int = 1
    tags: tuple[str, ...] = ()
    version: str | int | float | None = None


@overload
def eval(function: Callable[..., Any], /) -> Eval: ...  # noqa: A001


@overload
def eval(  # noqa: A001 - the keys of an eval in YAML
    *,
    score: Any = (),
    gates: str | Sequence[Any] = (),
    name: str = "",
    model: ModelGiven = None,
    system: str = "",
    generation: Mapping[str, Any] = NO_VALUES,
    repeats: int = 1,
    tags: str | Sequence[str] = (),
    version: str | int | float | None = None,
) -> Callable[[Callable[..., Any]], Eval]: ...


def eval(function: Any = None, /, *, name: str = "", **settings: Any) -> Any:  # noqa: A001
    """Make an eval of a function that yields cases.

    ::

        @eval(score=[contains()], gates=["contains >= 0.95"])
        def support_bot():
            yield case("How do I reset my password?", target="settings", id="reset")

    Args:
        function: Returns or yields cases (:func:`~pytest_evals.core.case.case`); may
            be async. Its arguments are fixtures of pytest with the scope session,
            package or module.
        name: Its name, unique in a session; by default that of the function.
        score: Scorers; the first decides whether a case is correct. By default
            ``exact()``.
        gates: Gates, as text such as ``"contains >= 0.95"`` or as mappings.
        model: The model that answers if the session has none: a spec or a model
            object.
        system: System message before each prompt.
        generation: ``max_tokens``, ``temperature``, ``stop`` and other sampling
            parameters.
        repeats: Answers to each prompt; scores are their means.
        tags: Names for ``--evals-tasks`` and ``-m``.
        version: Version of the eval.
    """
    unknown = [one for one in settings if one not in EvalSettings.__slots__]
    if unknown:
        known = ("name", *EvalSettings.__slots__)
        raise TypeError(f"eval(): {unknown_name('argument', unknown[0], known)}")
    for key in ("score", "gates", "tags"):
        settings[key] = as_tuple(settings.get(key, ()))

    def decorated(cases: Callable[..., Any]) -> Eval:
        if not callable(cases):
            raise TypeError("eval() decorates a function that yields cases")
        return Eval(
            cases,
            name=name or cases.__name__,
            place=_place_of(cases),
            settings=EvalSettings(**settings),
        )

    return decorated if function is None else decorated(function)


def as_tuple(given: Any) -> tuple[Any, ...]:
    """A list as a tuple, any other value as a tuple with one element."""
    return tuple(given) if isinstance(given, list | tuple) else (given,)


def _place_of(function: Callable[..., Any]) -> Place:
    code = inspect.unwrap(function).__code__
    return Place(Path(code.co_filename), code.co_firstlineno)


async def _listed(cases: AsyncIterable[Any]) -> list[Any]:
    return [one async for one in cases]


def _check_repeats(repeats: object) -> None:
    if type(repeats) is not int or not 1 <= repeats <= MOST_REPEATS:
        raise EvalsError(f"repeats is not a whole number from 1 to {MOST_REPEATS:,}")


@dataclass(frozen=True, slots=True, eq=False)
class _OpenModel:
    """Returns a model object; each object is a separate source."""

    model: ModelLike

    def __call__(self) -> ModelLike:
        return self.model


def _model_source(given: ModelGiven) -> ModelSource | None:
    if given is None or isinstance(given, str):
        return given or None
    from pytest_evals.models.python.model import model_of

    return _OpenModel(model_of(given, "model"))


def fixtures_of_scorers(parts: EvalParts) -> Mapping[str, list[FunctionScorer]]:
    """Name of a fixture → the scorers that request it."""
    found = dict[str, list[FunctionScorer]]()
    for scorer in parts.scorers:
        if isinstance(scorer, FunctionScorer):
            for name in scorer.fixtures:
                found.setdefault(name, []).append(scorer)
    return found
