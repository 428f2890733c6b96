"""Validate the arguments of ``evaluate()``. The error for an invalid argument names it,
its value and the expected values."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from inspect import signature
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ParamSpec, TypeAlias, TypedDict, TypeVar

from pytest_evals.core.case import Case
from pytest_evals.core.cli_values import encoding_fault
from pytest_evals.core.finite import is_finite
from pytest_evals.core.model import ModelLike
from pytest_evals.core.reasoning import REFUSALS
from pytest_evals.core.response_contract import described
from pytest_evals.core.task import Group, Task, TaskOptions
from pytest_evals.data.user_files import path_error
from pytest_evals.dialects.native.python import Eval
from pytest_evals.dialects.native.rows import is_rows
from pytest_evals.errors import OptionError, suggestion
from pytest_evals.models.python.functions import is_session_class
from pytest_evals.prompts.generation import check_overrides
from pytest_evals.run.config import StopMode
from pytest_evals.run.profile import PROFILES, Profile, conflict
from pytest_evals.run.suite_reader import Source
from pytest_evals.store.baselines import check_name

Tasks: TypeAlias = Source | Sequence[Source] | Sequence[Mapping[str, Any] | Case]
OneModel: TypeAlias = str | ModelLike | Callable[..., Any]
Models: TypeAlias = list[Any] | tuple[Any, ...] | dict[str, Any]
"""Several models: a list of them, or a name for each."""


class Settings(TypedDict, total=False):
    """The arguments of :func:`evaluate` after the options."""

    prompt: str
    target: Any
    choices: Any
    score: Any
    gates: Sequence[str]
    refusals: str
    judge: str | ModelLike
    folder: str | Path | None
    compare: str
    save: str
    save_failed: bool
    stop: StopMode
    stop_error: float
    profile: Profile
    max_requests: int
    max_cost: float
    plugins: Sequence[object]
    reference: str


P = ParamSpec("P")
T = TypeVar("T")
Check = tuple[Callable[[object], bool], str]
"""Whether a value is valid, and what is expected."""


def with_checked_arguments(function: Callable[P, T]) -> Callable[P, T]:
    """Return the function with its arguments checked before it runs.

    Raises:
        TypeError: An argument is missing, unknown, or passed twice.
        OptionError: An argument has the wrong type, or an invalid value.
    """
    expected = signature(function)

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        name = function.__name__
        try:
            arguments = expected.bind(*args, **kwargs).arguments
        except TypeError as error:
            unknown = [one for one in kwargs if one not in expected.parameters]
            why = _unknown(unknown[0], [*expected.parameters]) if unknown else error
            raise TypeError(f"{name}(): {why}") from None
        _check(arguments)
        return function(*args, **kwargs)

    return call


def _unknown(name: str, known: Sequence[str]) -> str:
    text = f"unknown argument {name!r}"
    if name in TaskOptions.__slots__:
        return f"{text}\n  fix: options=TaskOptions({name}=…)"
    return text + suggestion(name, known)


def _check(arguments: Mapping[str, object]) -> None:
    for name, value in arguments.items():
        _check_value(name, value, _ARGUMENTS[name])
    tasks, gates = arguments["tasks"], arguments.get("gates", ())
    if (
        isinstance(tasks, Sequence)
        and not isinstance(tasks, str)
        and not is_rows(tasks)
    ):
        for number, task in enumerate(tasks):
            _check_value(f"tasks[{number}]", task, _SOURCE)
    if isinstance(gates, Sequence):
        for number, gate in enumerate(() if is_rows(tasks) else gates):
            _check_value(f"gates[{number}]", gate, _TEXT)
    folder, options = arguments.get("folder"), arguments.get("options")
    if isinstance(folder, str | Path):
        fault = path_error(Path(folder))
        if fault:
            raise OptionError(f"folder={described(folder)}: {fault}")
    if isinstance(options, TaskOptions):
        for name, check in _OPTIONS.items():
            _check_value(f"options.{name}", getattr(options, name), check)
        check_overrides(options.gen_kwargs)
    _check_encoding(arguments)
    _check_stop(arguments.get("stop", "off"), arguments.get("stop_error", 0.0))
    _check_profile(str(arguments.get("profile", "")), options)
    _check_save(arguments.get("save"), arguments.get("save_failed"), folder)


def _check_stop(stop: object, error: Any) -> None:
    if stop not in ("off", "curtail", "auto"):
        raise OptionError(f"stop={stop!r}: expected off, curtail or auto")
    if not 0 <= error <= 1:
        raise OptionError(f"stop_error={error!r}: expected a fraction from 0 to 1")


def _check_profile(profile: str, options: object) -> None:
    if profile and profile not in PROFILES:
        hint = suggestion(profile, PROFILES)
        raise OptionError(f"profile={profile!r}: unknown profile{hint}")
    if not isinstance(options, TaskOptions):
        return
    fault = conflict(profile, options.limit, options.sample)
    if fault is not None:
        raise OptionError(
            f"TaskOptions({fault.setting}={fault.value!r}) and profile={profile!r} "
            f"contradict each other: {fault.why}; pass one of them"
        )


def _check_save(save: object, save_failed: object, folder: object) -> None:
    if not save:
        if save_failed:
            raise OptionError("save_failed needs a baseline's name\n  fix: save='main'")
        return
    try:
        check_name(str(save))
    except ValueError as error:
        raise OptionError(f"save={save!r}: {error}") from None
    if folder is None:
        raise OptionError(
            f"save={save!r} needs a folder to save it in\n"
            "  fix: evaluate(…, folder='.evals')"
        )


def _check_encoding(arguments: Mapping[str, object]) -> None:
    """Paths may contain any bytes; other strings are written to results files."""
    options = arguments.get("options")
    texts = {name: arguments.get(name) for name in _TEXTS}
    if isinstance(options, TaskOptions):
        texts |= {f"options.{name}": getattr(options, name) for name in _OPTION_TEXTS}
    for name, value in texts.items():
        fault = encoding_fault(value)
        if fault:
            raise OptionError(f"{name}: {fault}")


def _check_value(name: str, value: object, check: Check) -> None:
    is_valid, expected = check
    if not is_valid(value):
        raise OptionError(f"{name} is {described(value)}; expected {expected}")


def _is_source(value: object) -> bool:
    return isinstance(value, Path | Task | Group | Eval) or (
        isinstance(value, str) and bool(value)
    )


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _is_tasks(value: object) -> bool:
    return _is_source(value) or (_is_list(value) and value != [] and value != ())


def _is_model(value: object) -> bool:
    is_instance = not isinstance(value, type) and callable(
        getattr(value, "answer", None)
    )
    is_function = callable(value) and not isinstance(value, type)
    is_function = is_function or is_session_class(value)
    return is_instance or is_function or (isinstance(value, str) and bool(value))


def _is_model_or_several(value: object) -> bool:
    if isinstance(value, dict):
        return (
            bool(value)
            and all(isinstance(name, str) for name in value)
            and all(map(_is_model, value.values()))
        )
    if isinstance(value, list | tuple):
        return bool(value) and all(map(_is_model, value))
    return _is_model(value)


def _is_number(value: object) -> bool:
    return (
        isinstance(value, Real)
        and not isinstance(value, bool)
        and bool(-math.inf < value < math.inf)  # type: ignore[operator]  # as all have
    )


def _is_whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_count(value: object) -> bool:
    return _is_whole(value) and bool(value >= 0)  # type: ignore[operator]  # as above


def _is_share(value: object) -> bool:
    """A number of documents, or a fraction of them."""
    if not isinstance(value, Real) or not _is_number(value):
        return False
    number: Any = value
    return bool(number > 0 and (number <= 1 or number % 1 == 0))


def _of(*types: type) -> Callable[[object], bool]:
    return lambda value: isinstance(value, types)


def _or_none(check: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: value is None or check(value)


_SOURCE = (_is_source, "a path, or a Task, a Group or an Eval")
_TEXT = (_of(str), "a str")
_FLAG = (_of(bool), "True or False")
_MAPPING = (_of(Mapping), "a mapping")
_WHOLE = (_or_none(_is_whole), "an integer or None")
_SHARE = (
    _or_none(_is_share),
    "a number of documents such as 200, a fraction such as 0.1, or None",
)
_MODEL = (
    "a spec such as 'hf:gpt2', a function of your application, or an object with "
    "`name` and `answer(requests)`"
)
_ARGUMENTS: Mapping[str, Check] = {
    "tasks": (_is_tasks, f"{_SOURCE[1]}; a list of them; or a list of rows"),
    "model": (_is_model_or_several, f"{_MODEL}; or a list of them"),
    "options": (
        _or_none(_of(TaskOptions)),
        "options such as TaskOptions(limit=200), or None",
    ),
    "prompt": _TEXT,
    "target": (lambda value: True, "anything"),
    "choices": (lambda value: True, "anything"),
    "score": (lambda value: True, "scorers"),
    "gates": (_is_list, "a list such as ['arc_easy/acc >= 0.6']"),
    "refusals": (lambda value: value in REFUSALS, "'error' or 'answer'"),
    "judge": (lambda value: value == "" or _is_model(value), f"{_MODEL}; '' for none"),
    "folder": (_or_none(_of(str, Path)), "a path such as '.evals', or None"),
    "compare": (_of(str), "a baseline's name or the folder of a run, as a str"),
    "save": (_of(str), "a baseline's name, as a str"),
    "save_failed": _FLAG,
    "stop": (_of(str), "'off', 'curtail' or 'auto'"),
    "stop_error": (_is_number, "a fraction from 0 to 1"),
    "profile": (_of(str), "'' or 'release'"),
    "max_requests": (_is_count, "a whole number, 0 for no maximum"),
    "max_cost": (
        lambda value: is_finite(value) and value >= 0,
        "a finite number, 0 for no maximum",
    ),
    "plugins": (_is_list, "a list of objects or modules with hooks"),
    "reference": (_of(str), "the name of a model, as a str"),
}
_TEXTS = ("model", "gates", "judge", "compare", "save")
_OPTION_TEXTS = (
    "system_instruction",
    "gen_kwargs",
    "metadata",
    "model_arguments",
    "parameters",
    "reasoning_tags",
)
_OPTIONS: Mapping[str, Check] = {
    "limit": _SHARE,
    "sample": _SHARE,
    "num_fewshot": (_or_none(_is_count), "an integer from 0, or None"),
    "seed": (_is_whole, "an integer"),
    "typed_seed": _WHOLE,
    "bootstrap_iters": (_is_count, "an integer from 0"),
    "choices": (
        lambda value: value in ("", "generate", "loglikelihood"),
        '"generate" or "loglikelihood"',
    ),
    "call_s": (lambda value: _is_number(value) and value >= 0, "seconds, 0 or more"),  # type: ignore[operator]
    **dict.fromkeys(("system_instruction", "base", "root", "sandbox"), _TEXT),
    **dict.fromkeys(
        (
            "exclude_own_shots",
            "chat",
            "fewshot_as_multiturn",
            "allow_unsafe_code",
            "typed_csv",
        ),
        _FLAG,
    ),
    **dict.fromkeys(
        ("gen_kwargs", "metadata", "model_arguments", "parameters", "metrics"), _MAPPING
    ),
}
