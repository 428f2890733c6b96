"""Evals as Python functions: ``@eval()`` on a function that yields cases."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, overload

from pytest_evals.core.case import Case
from pytest_evals.core.gate import Gate
from pytest_evals.core.reasoning import REFUSALS as WAYS
from pytest_evals.core.task import Task, TaskOptions
from pytest_evals.data.calls import collecting
from pytest_evals.dialects.metadata_keys import refusals_fault
from pytest_evals.dialects.native.cases import (
    NO_VALUES,
    ONE_SET,
    CasesFunction,
    EvalCases,
    ParameterSet,
    case_folders,
)
from pytest_evals.dialects.native.labels import with_labels
from pytest_evals.dialects.native.parts import (
    PYTHON,
    EvalParts,
    Scorer,
    remedies,
    sampling_of,
)
from pytest_evals.dialects.native.scorers import range_of, scorers_of
from pytest_evals.dialects.native.settings import (
    EvalSettings,
    ModelGiven,
    as_tuple,
    check_repeats,
    model_source,
    simulator_in,
)
from pytest_evals.dialects.native.task import eval_task
from pytest_evals.errors import Place, Problem, TaskFileError, unknown_name
from pytest_evals.gates.read.entry import read_gate
from pytest_evals.gates.read.text import with_unique_ids
from pytest_evals.prompts.tools import tools_reader
from pytest_evals.scorers.extract import extraction_of

Function = TypeVar("Function", bound=Callable[..., Any])


class Eval:
    """An eval: cases, scorers and gates.

    :func:`eval` returns it; pytest collects it from test modules, and ``evaluate()``
    accepts it.
    """

    pytestmark: Any = ()  # markers of pytest, from the function or applied to the eval

    def __init__(
        self,
        cases: Callable[..., Any],
        *,
        name: str,
        place: Place,
        settings: EvalSettings,
    ) -> None:
        """Use :func:`eval`."""
        self.cases, self.name, self.place = cases, name, place
        self.settings = settings
        self.scorers: list[Any] = []
        """Scorers that :meth:`score` has added."""
        self.__name__ = getattr(cases, "__name__", name)
        self.__doc__ = cases.__doc__
        self.__module__ = cases.__module__
        self.pytestmark = [*getattr(cases, "pytestmark", ())]

    def __repr__(self) -> str:
        return f"<Eval {self.name} at {self.place}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        return self.cases(*args, **kwargs)

    @overload
    def score(self, function: Function, /) -> Function: ...

    @overload
    def score(
        self, name: str = "", /, *, range: tuple[float, float] | None = None
    ) -> Callable[[Function], Function]: ...

    def score(
        self,
        function: Any = "",
        /,
        *,
        range: tuple[float, float] | None = None,  # noqa: A002 - as in gates
    ) -> Any:
        """Add a scorer: ``@support_bot.score`` or ``@support_bot.score("polite")``.

        The function gets the answer and the case, by name or by position, and returns
        a bool, a number or a :class:`~pytest_evals.core.record.Score`. Its other
        arguments are fixtures.

        Args:
            function: The function, or the name of the metric; by default the
                function's name.
            range: Smallest and largest possible score, from 0 to 1 if the function is
                annotated to return a bool. Gates on scores of unknown range have
                approximate confidence limits.

        Raises:
            EvalsError: ``range`` is not two ascending numbers.
        """
        if not isinstance(function, str):
            self.scorers.append(("", function, None))
            return function
        name, limits = function, range_of(range)

        def add(scorer: Function) -> Function:
            self.scorers.append((name, scorer, limits))
            return scorer

        return add

    @property
    def fixtures(self) -> tuple[str, ...]:
        """Names of fixtures that the function requests."""
        return self._function.fixtures

    @property
    def _function(self) -> CasesFunction:
        settings = self.settings
        given = {
            "score": settings.score or self.scorers,
            "generation": settings.generation,
            "repeats": settings.repeats > 1,
        }
        return CasesFunction(
            name=self.name,
            place=self.place,
            function=self.cases,
            choices_by=settings.choices_by,
            used=[key for key, value in given.items() if value],
        )

    def parts(
        self,
        options: TaskOptions,
        values: Mapping[str, Any] = NO_VALUES,
        variant: ParameterSet = ONE_SET,
    ) -> EvalParts:
        """The parts of the eval; the function is not called yet. ``values``: values of
        the fixtures that the function requests. ``variant``: other arguments of the
        function, and their name. Raises TaskFileError with all problems of its
        arguments."""
        settings, problems = self.settings, list[Problem]()
        name = f"{self.name}[{variant.id}]" if variant.id else self.name

        def checked(make: Callable[[], Any], default: Any) -> Any:
            with collecting(problems, self.place, f"{self.name}: "):
                return make()
            return default

        def scorers_() -> list[Scorer]:
            found = scorers_of(settings.score, self.scorers)
            return [with_labels(one, self.place) for one in found]

        def gates_() -> tuple[Gate, ...]:
            given = settings.gates
            gates = [read_gate(one, task=name, source=self.place) for one in given]
            return with_unique_ids(gates)

        scorers = checked(scorers_, ())
        sampling = checked(lambda: sampling_of(settings.generation, options), None)
        model = checked(lambda: model_source(settings.model), None)
        gates = checked(gates_, ())
        extract = checked(lambda: extraction_of(settings.extract), None)
        user = checked(lambda: simulator_in(settings.user), None)
        tools = checked(self._tools, None)
        checked(lambda: check_repeats(settings.repeats), None)
        if fault := refusals_fault(settings.refusals):
            message = f"{self.name}: refusals: {fault}"
            problems.append(Problem(message, self.place))
        if problems:
            raise TaskFileError(dict.fromkeys(problems))

        @cache
        def load() -> EvalCases:
            folders = case_folders(self.place.path, options)
            return self._function.listed(values, variant.values, folders, tools)

        is_open = settings.score or self.scorers or load().case(0).choices is None
        return EvalParts(
            name=name,
            source=self.place,
            load=load,
            scorers=scorers if is_open else (),
            choices_by=None if is_open else settings.choices_by,
            sampling=sampling.sampling,
            repeats=settings.repeats,
            refusals=settings.refusals,
            extract=extract,
            tools=tools,
            traces=settings.traces,
            has_turns=self._has(load, lambda case: bool(case.turns)),
            shows_images=self._has(load, lambda case: case.shows_images),
            user=user,
            system=settings.system,
            model=model,
            gates=gates,
            tags=settings.tags,
            version=settings.version,
            config=settings.config(),
            remedies=remedies(scorers, PYTHON),
            warnings=sampling.warnings,
        )

    def task(self, options: TaskOptions, values: Mapping[str, Any] = NO_VALUES) -> Task:
        """The task of the eval. Raises TaskFileError with all problems of its
        arguments."""
        return eval_task(self.parts(options, values), options)

    def _has(
        self, load: Callable[[], EvalCases], is_so: Callable[[Case], bool]
    ) -> bool:
        try:
            cases = load()
        except TaskFileError:
            return False  # raised again by the task
        return any(is_so(cases.case(n)) for n in range(len(cases)))

    def _tools(self) -> Callable[[Mapping[str, Any]], str] | None:
        given = self.settings.tools
        return None if given is None else tools_reader(given, self.place)


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
    refusals: str = WAYS[0],
    extract: Any = None,
    tools: Any = None,
    traces: bool = False,
    user: Any = None,
    choices_by: str = "",
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
        refusals: ``answer`` to score the text of a refusal as the answer; by default
            ``error``.
        extract: The part of answers that is scored, such as ``{"after": "Answer:"}``
            (:func:`~pytest_evals.scorers.extract.extraction_of`).
        tools: Tools that a chat server is sent: a list as OpenAI's parameter of that
            name, or the name of a row's value with one, or a template.
        traces: Whether calls, usage and contexts are read from the OpenTelemetry spans
            of a ``python:`` application.
        user: A second model that writes the user's messages: ``model``, and optionally
            ``goal``, ``persona``, ``max_turns``, ``stop``, ``temperature``, ``seed``
            and ``max_tokens``.
        choices_by: How choices are answered: ``loglikelihood`` (default) or
            ``generate``.
        tags: Names for ``--evals-tasks`` and ``-m``.
        version: Version of the eval.
    """
    unknown = [one for one in settings if one not in EvalSettings.__slots__]
    if unknown:
        __tracebackhide__ = True  # pytest shows the user's line only
        known = ("name", *EvalSettings.__slots__)
        message = f"eval(): {unknown_name('argument', unknown[0], known)}"
        if unknown[0] in ("max_tokens", "seed", "stop", "temperature"):
            message = f"eval(): unknown argument {unknown[0]!r}; write "
            message += f"generation={{{unknown[0]!r}: {settings[unknown[0]]!r}}}"
        raise TypeError(message)
    for key in ("score", "gates", "tags"):
        settings[key] = as_tuple(settings.get(key, ()))

    def decorated(cases: Callable[..., Any]) -> Eval:
        if not callable(cases):
            raise TypeError("eval() decorates a function that yields cases")
        made = Eval(
            cases,
            name=name or getattr(cases, "__name__", "") or type(cases).__name__,
            place=_place_of(cases),
            settings=EvalSettings(**settings),
        )
        _record(made)
        return made

    return decorated if function is None else decorated(function)


DEFINED = "_pytest_evals_defined"  # the name of a module's list of its evals


class DefinedEval(NamedTuple):
    """An eval while it exists, its name, that of its function, and its place."""

    eval: weakref.ref[Eval]
    name: str
    function: str
    place: Place


def _record(made: Eval) -> None:
    """Record an eval in the module that defines it, which may lose it again."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_globals is globals():
        frame = frame.f_back
    if frame is not None:
        place = Place(Path(frame.f_code.co_filename), frame.f_lineno)
        one = DefinedEval(weakref.ref(made), made.name, made.__name__, place)
        frame.f_globals.setdefault(DEFINED, []).append(one)


def _place_of(function: Any) -> Place:
    """Where a function, a partial function or the class of a callable is defined."""
    while isinstance(function, partial):
        function = function.func
    function = inspect.unwrap(function)
    if not hasattr(function, "__code__"):
        function = type(function).__call__
    code = getattr(function, "__code__", None)
    if code is None:
        return Place(Path("unknown"))
    return Place(Path(code.co_filename), code.co_firstlineno)
