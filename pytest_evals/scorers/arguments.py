"""Checks of the arguments of scorers, which users write in Python and in YAML."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, NamedTuple, ParamSpec, TypeVar

from pytest_evals.core.finite import is_finite
from pytest_evals.errors import EvalsError, number_fix

P = ParamSpec("P")
R = TypeVar("R")


_OF_GATES = {
    "at_least": ">=",
    "fail_under": ">=",
    "max": "<=",
    "min": ">=",
    "min_score": ">=",
    "minimum": ">=",
    "pass_threshold": ">=",
    "threshold": ">=",
}
"""Arguments that users expect of a metric, and that gates have."""


def gate_fix(metric: str, argument: object, value: Any = None) -> str:
    """Return the line that points to gates if an unknown argument of a metric is a
    threshold, else an empty text."""
    if argument == "gates":
        return "\n  fix: write gates at the start of a line, not below a metric"
    sign = _OF_GATES.get(str(argument))
    if sign is None:
        return ""
    number = value if isinstance(value, int | float) and value is not True else 0.9
    return f"\n  fix: add a gate to the file: gates: [{metric} {sign} {number}]"


class _Kind(NamedTuple):
    """Values that an argument accepts. ``read``: returns the value to use; raises
    ``TypeError`` for another one."""

    meaning: str
    read: Callable[[Any], Any]


def checked_arguments(make: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function that returns a scorer: its arguments are checked by their
    annotations. Raises EvalsError if an argument has a wrong type; raised by the
    decorated function."""
    signature = inspect.signature(make)

    @wraps(make)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        __tracebackhide__ = True  # pytest shows the user's line only
        given = signature.bind(*args, **kwargs)
        for name, value in given.arguments.items():
            kind = _KINDS.get(str(signature.parameters[name].annotation))
            if kind is None:
                continue
            try:
                given.arguments[name] = kind.read(value)
            except TypeError:
                what = f"{make.__name__}: {name} is {_shown(value)}, not {kind.meaning}"
                if isinstance(value, str) and "number" in kind.meaning:
                    what += f"\n  fix: {number_fix(name, value)}"
                if isinstance(value, list) and "any_of" in signature.parameters:
                    what += "\n  fix: any_of: [a, b], or all_of: [a, b]"
                raise EvalsError(what) from None
        try:
            return make(*given.args, **given.kwargs)
        except EvalsError as error:
            raise error.with_traceback(None) from error.__cause__

    return checked


def _text(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise TypeError
    return str(value)


def _texts(value: Any) -> tuple[str, ...]:
    """Several texts; one text is not the list of its characters."""
    if isinstance(value, list | tuple):
        return tuple(_text(one) for one in value)
    return (_text(value),)


def _mapping(value: Any) -> Any:
    if not isinstance(value, Mapping) or not all(isinstance(one, str) for one in value):
        raise TypeError
    return value


def _number(value: Any) -> float:
    if not is_finite(value):
        raise TypeError
    return value


def _exactly(kind: type) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if type(value) is not kind:
            raise TypeError
        return value

    return read


def _optional(kind: _Kind) -> _Kind:
    return _Kind(kind.meaning, lambda one: None if one is None else kind.read(one))


def _one_of(*words: str) -> _Kind:
    def read(value: Any) -> Any:
        if value not in words:
            raise TypeError
        return value

    return _Kind(" or ".join(map(repr, words)), read)


def _shown(value: Any) -> str:
    shown = repr(value) if isinstance(value, str | int | float) else ""
    return shown[:80] or f"a {type(value).__name__}"


_TEXT = _Kind("text", _text)
_NUMBER = _Kind("a finite number", _number)
_KINDS: Mapping[str, _Kind] = {
    "str": _TEXT,
    "str | None": _optional(_TEXT),
    "Sequence[str]": _Kind("text or a list of texts", _texts),
    "bool": _Kind("true or false", _exactly(bool)),
    "int": _Kind("a whole number", _exactly(int)),
    "Order": _one_of("any", "strict"),
    "Extra": _one_of("forbid", "allow"),
    "Rules": _one_of("json", "bfcl"),
    "NoClaims": _one_of("unscored", "wrong"),
    "int | None": _optional(_Kind("a whole number", _exactly(int))),
    "float": _NUMBER,
    "Mapping[str, Any]": _Kind("a mapping of texts to values", _mapping),
    "float | None": _optional(_NUMBER),
}
