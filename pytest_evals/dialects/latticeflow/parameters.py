"""Reads ``config_spec``: the parameters of a task and their allowed values.

Values are not converted, with two exceptions: an integer is accepted as a float, and a
float with an integer value (1.0) as an integer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from pytest_evals.dialects.yaml_reader.section import Section
from pytest_evals.errors import Place, Problem, did_you_mean, unknown_name

_DTYPES = ("string", "integer", "float", "boolean")
_NAMES = ("model", "dataset", "dataset_column", "task_result")
"""Types whose values are keys or names."""
_USAGES = (
    "model_under_test",
    "judge_model",
    "synthesizer_model",
    "productivity_assistant",
)
_KINDS = ("freeform", "python", "jinja")
_TYPES = (
    "float",
    "int",
    "boolean",
    "string",
    *_NAMES,
    "list",
    "categorical",
    "dict",
)


class _BadValueError(Exception):
    """The value is invalid for its parameter; the message completes "must be …"."""


class ParameterValue(NamedTuple):
    """A value and the place where it was set."""

    value: Any
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One entry of ``config_spec``.

    Args:
        key: As in ``<< config.key >>``.
        nullable: Whether it may be ``null``.
        default: Its default value; ``None`` if it has none.
        mapping: Value of a category → its replacement.
    """

    key: str
    type: str
    place: Place
    nullable: bool = False
    default: Any = None
    usage: str = ""
    mapping: Mapping[str, Any] = field(default_factory=dict)
    _check: Callable[[Any], Any]

    def checked(self, value: Any) -> Any:
        """Return the value after checks.

        Raises:
            ValueError: The value is invalid; the message states why.
        """
        if value is None and self.nullable:
            return None
        try:
            return self._check(value)
        except _BadValueError as error:
            raise ValueError(f"{self.key} must be {error}, not {value!r}") from None


def read_parameters(top: Section) -> tuple[Parameter, ...]:
    """Return the parameters of an entity; errors go to the section's problems."""
    found: dict[str, Parameter] = {}
    for entry in top.entries("config_spec"):
        one = _parameter(entry)
        if one is None:
            continue
        if one.key in found:
            what = f"duplicate parameter {one.key!r}"
            entry.problem("key", f"{what}; first at {found[one.key].place}")
        found[one.key] = one
    return tuple(found.values())


def dataset_parameter(key: str, place: Place) -> Parameter:
    """Return a parameter for a dataset that no file declares."""
    return Parameter(key=key, type="dataset", place=place, _check=_text)


def resolve_values(
    parameters: Sequence[Parameter],
    given: Mapping[str, ParameterValue],
    problems: list[Problem],
    fallback: Callable[[Parameter], Any],
) -> dict[str, Any]:
    """Return the value of each parameter: the one that was set, else its default, else
    ``null``.

    Args:
        given: Key → value; an unknown key is a problem.
        fallback: Value of a parameter without any; ``None`` for a problem.
    """
    known = {one.key: one for one in parameters}
    for key in given.keys() - known.keys():
        what = unknown_name("parameter", key, known)
        problems.append(Problem(what, given[key].place))
    values: dict[str, Any] = {}
    for one in parameters:
        value = one.default
        if one.key in given:
            try:
                value = one.checked(given[one.key].value)
            except ValueError as error:
                problems.append(Problem(str(error), given[one.key].place))
        elif value is None and not one.nullable:
            value = fallback(one)
            if value is None:
                what = f"the parameter {one.key!r} has no value"
                option = f"--evals-latticeflow-config {one.key}=…"
                fix = f"{option}, or task_config in a run file"
                problems.append(Problem(what, one.place, fix))
        mapped = one.mapping.get(value, value) if isinstance(value, str) else value
        values[one.key] = mapped
    return values


def _parameter(entry: Section) -> Parameter | None:
    kind = entry.one_of("type", "parameter type", _TYPES, "")
    key = entry.text("key")
    if not key:
        entry.problem("key", "a parameter needs a key", "key: my_parameter")
    if not entry.text("display_name"):
        what = f"display_name of the parameter {key!r} is missing"
        entry.problem("display_name", what, f'display_name: "{key or "…"}"')
    entry.text("description")
    nullable = entry.flag("nullable")
    default = entry.raw("default_value")
    usage = ""
    if kind == "model" and entry.raw("usage") is not None:
        usage = entry.one_of("usage", "usage", _USAGES, "")
    check, mapping = _checks(entry, kind)
    entry.close(f"a parameter of type {kind}" if kind else "a parameter")
    if not kind or not key:
        return None
    one = Parameter(
        key=key,
        type=kind,
        place=entry.place("key"),
        nullable=nullable,
        usage=usage,
        mapping=mapping,
        _check=check,
    )
    return _with_default(one, default, entry)


def _checks(
    entry: Section, kind: str
) -> tuple[Callable[[Any], Any], Mapping[str, Any]]:
    """Return the check of the parameter's values and its category replacements."""
    if kind in ("float", "int"):
        return _number(entry, whole=kind == "int"), {}
    if kind == "boolean":
        return _boolean, {}
    if kind in ("list", "dict"):
        key = "dtype" if kind == "list" else "value_dtype"
        if entry.values.get(key) is None:
            entry.raw(key)
            entry.problem(
                key, f"a parameter of type {kind} needs {key}", f"{key}: string"
            )
            return _any_value, {}
        return _each(entry.one_of(key, key, _DTYPES, "string"), kind), {}
    if kind == "categorical":
        return _category(entry)
    if kind == "string":
        _string_keys(entry)
    return _text, {}


def _with_default(one: Parameter, default: Any, entry: Section) -> Parameter:
    if default is None:
        return one
    try:
        return replace(one, default=one.checked(default))
    except ValueError as error:
        entry.problem("default_value", f"default_value: {error}")
        return one


def _string_keys(entry: Section) -> None:
    if "string_kind" in entry:
        entry.one_of("string_kind", "string_kind", _KINDS, _KINDS[0])
    entry.text("default_file_content")
    for example in entry.entries("examples"):
        for key in ("value", "display_name"):
            if not isinstance(example.raw(key), str):
                example.problem(key, f"{key} of an example must be a string")
        example.close("an example")


def _number(entry: Section, *, whole: bool) -> Callable[[Any], Any]:
    least, most = (_bound(entry, key, whole=whole) for key in ("min", "max"))
    if least is not None and most is not None and least > most:
        entry.problem("min", f"min ({least}) must be at most max ({most})")
    base = _DTYPE_CHECKS["integer" if whole else "float"]

    def check(value: Any) -> Any:
        number = base(value)
        if least is not None and number < least:
            raise _BadValueError(f"at least {least}")
        if most is not None and number > most:
            raise _BadValueError(f"at most {most}")
        return number

    return check


def _bound(entry: Section, key: str, *, whole: bool) -> float | None:
    value = entry.raw(key)
    if value is None:
        return None
    try:
        number: float = _DTYPE_CHECKS["integer" if whole else "float"](value)
        return number
    except _BadValueError as error:
        entry.problem(key, f"{key} must be {error}, not {value!r}")
        return None


def _category(entry: Section) -> tuple[Callable[[Any], Any], Mapping[str, Any]]:
    allowed = entry.take("allowed_values", list, [])
    if not allowed:
        fix = 'allowed_values: ["easy", "hard"]'
        entry.problem("allowed_values", "allowed_values must be a list of strings", fix)
    for number, word in enumerate(allowed):
        if not isinstance(word, str):
            what = f"allowed_values must contain strings, not {word!r}"
            place = entry.file.place(*entry.steps, "allowed_values", number)
            fix = f"quote it: {str(word)!r}"
            if isinstance(word, bool):
                fix = "quote it: YAML reads yes, no, on and off as true and false"
            entry.problems.append(Problem(what, place, fix))
    multiple, mapping = entry.flag("multiple"), _mapping(entry, allowed)

    def check(value: Any) -> Any:
        several = multiple and isinstance(value, list)
        for one in value if several else [value]:
            if one not in allowed:
                hint = did_you_mean(str(one), [str(word) for word in allowed])
                words = ", ".join(map(repr, allowed))
                raise _BadValueError(f"one of {words}{hint and f' ({hint[2:]})'}")
        return [value] if multiple and not several else value

    return check, mapping


def _mapping(entry: Section, allowed: list[Any]) -> Mapping[str, Any]:
    """Return the replacements of a category's values."""
    mapping = entry.take("values_mapping", dict, {})
    for name, value in mapping.items():
        if name not in allowed:
            what = f"values_mapping: {name!r} is not one of allowed_values"
            hint = did_you_mean(str(name), [str(word) for word in allowed])
            entry.problem("values_mapping", what + hint)
        if not isinstance(value, int | float | bool | str):
            what = (
                f"values_mapping: {name!r} must map to a number, a string or a boolean"
            )
            entry.problem("values_mapping", what)
    return mapping


def _each(dtype: str, kind: str) -> Callable[[Any], Any]:
    one = _DTYPE_CHECKS[dtype]

    def check(value: Any) -> Any:
        if not isinstance(value, list if kind == "list" else dict):
            raise _BadValueError("a list" if kind == "list" else "a mapping")
        try:
            if isinstance(value, dict):
                return {str(name): one(inner) for name, inner in value.items()}
            return [one(inner) for inner in value]
        except _BadValueError as error:
            word = "a list, each item" if kind == "list" else "a mapping, each value"
            raise _BadValueError(f"{word} {error}") from None

    return check


def _any_value(value: Any) -> Any:
    """Accept any value, for a parameter without a type."""
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _BadValueError("a string")
    return value


def _integer(value: Any) -> int:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise _BadValueError("an integer")
    return value


def _float(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _BadValueError("a number")
    if math.isnan(value):
        raise _BadValueError("a number")
    return float(value)


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _BadValueError("true or false")
    return value


_DTYPE_CHECKS: Mapping[str, Callable[[Any], Any]] = {
    "string": _text,
    "integer": _integer,
    "float": _float,
    "boolean": _boolean,
}
