"""Checks of the arguments of scorers, which users write in Python and in YAML."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from pytest_evals.core.finite import is_finite
from pytest_evals.errors import EvalsError, number_fix

P = ParamSpec("P")
R = TypeVar("R")
_OF_GATES = {
    **dict.fromkeys(("at_least", "fail_under", "min", "min_score", "minimum"), ">="),
    **dict.fromkeys(("pass_threshold", "threshold"), ">="),
    "max": "<=",
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
            annotation = str(signature.parameters[name].annotation)
            kind = _KINDS.get(annotation)
            if kind is None or (value is None and annotation.endswith(" | None")):
                continue
            meaning, accepts, read = kind
            if accepts(value):
                given.arguments[name] = read(value)
                continue
            message = f"{make.__name__}: {name} is {_shown(value)}, not {meaning}"
            if isinstance(value, str) and "number" in meaning:
                message += f"\n  fix: {number_fix(name, value)}"
            if isinstance(value, list) and "any_of" in signature.parameters:
                message += "\n  fix: any_of: [a, b], or all_of: [a, b]"
            raise EvalsError(message)
        try:
            return make(*given.args, **given.kwargs)
        except EvalsError as error:
            raise error.with_traceback(None) from error.__cause__

    return checked


def _is_text(value: Any) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _listed(value: Any) -> Any:
    """Several texts; one text is not the list of its characters."""
    return value if isinstance(value, list | tuple) else (value,)


def _is_mapping(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(one, str) for one in value)


def _shown(value: Any) -> str:
    shown = repr(value) if isinstance(value, str | int | float) else ""
    return shown[:80] or f"a {type(value).__name__}"


def _same(value: Any) -> Any:
    return value


Kind = tuple[str, Callable[[Any], bool], Callable[[Any], Any]]
_WORDS = {
    "Order": ("any", "strict"),
    "Extra": ("forbid", "allow"),
    "Rules": ("json", "bfcl"),
    "NoClaims": ("unscored", "wrong"),
}
_KINDS: dict[str, Kind] = {
    "str": ("text", _is_text, str),
    "Sequence[str]": (
        "text or a list of texts",
        lambda value: all(map(_is_text, _listed(value))),
        lambda value: tuple(map(str, _listed(value))),
    ),
    "bool": ("true or false", lambda value: type(value) is bool, _same),
    "int": ("a whole number", lambda value: type(value) is int, _same),
    "float": ("a finite number", is_finite, _same),
    "Mapping[str, Any]": ("a mapping of texts to values", _is_mapping, _same),
    **{
        name: (" or ".join(map(repr, words)), words.__contains__, _same)
        for name, words in _WORDS.items()
    },
}
"""Annotation → the meaning of its values, whether it accepts a value, and the value to
use."""
_KINDS |= {f"{name} | None": _KINDS[name] for name in ("str", "int", "float")}
