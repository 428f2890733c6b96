"""Reads ``config_spec``: the parameters of a task and their allowed values.
``_PARAMETERS`` has all types of parameters.

Values are not converted, with two exceptions: an integer is accepted as a float, and a
float with an integer value (1.0) as an integer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from pytest_evals.errors import Place, Problem, did_you_mean, unknown_name
from pytest_evals.guests.latticeflow.fields import Keys

_USAGES = (
    "model_under_test",
    "judge_model",
    "synthesizer_model",
    "productivity_assistant",
)
_KINDS = ("freeform", "python", "jinja")
_QUOTE = "quote it: YAML reads yes, no, on and off as true and false"


Check = Callable[[Any], Any]
"""Returns the value to use. Raises ``ValueError`` if it is invalid for its parameter;
the message completes "must be …"."""


class ParameterValue(NamedTuple):
    """A value and the place where it was set."""

    value: Any
    place: Place


class Parameter(NamedTuple):
    """One entry of ``config_spec``."""

    key: str  # as in << config.key >>
    type: str
    place: Place
    check: Check
    nullable: bool = False
    default: Any = None
    usage: str = ""

    def checked(self, value: Any) -> Any:
        """Return the value; raises ``ValueError`` if it is invalid."""
        if value is None and self.nullable:
            return None
        try:
            return self.check(value)
        except ValueError as error:
            raise ValueError(f"{self.key} must be {error}, not {value!r}") from None


def read_parameters(top: Keys) -> tuple[Parameter, ...]:
    """Return the parameters of an entity; errors go to the section's problems."""
    found: dict[str, Parameter] = {}
    for entry in top.entries("config_spec"):
        one = _parameter(entry)
        if one is None:
            continue
        if one.key in found:
            message = f"duplicate parameter {one.key!r}"
            entry.problem("key", f"{message}; first at {found[one.key].place}")
        found[one.key] = one
    return tuple(found.values())


def resolve_values(
    parameters: Sequence[Parameter],
    given: Mapping[str, ParameterValue],
    problems: list[Problem],
    fallback: Callable[[Parameter], Any],
) -> dict[str, Any]:
    """Return the value of each parameter: the one that was given, else its default,
    else ``null``. An unknown key is a problem, and a parameter without any value, if
    ``fallback`` returns ``None`` for it."""
    known = {one.key: one for one in parameters}
    for key in given.keys() - known.keys():
        message = unknown_name("parameter", key, known)
        problems.append(Problem(message, given[key].place))
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
                message = f"the parameter {one.key!r} has no value"
                option = f"--evals-latticeflow-config {one.key}=…"
                fix = f"{option}, or task_config in a run file"
                problems.append(Problem(message, one.place, fix))
        values[one.key] = value
    return values


def _parameter(entry: Keys) -> Parameter | None:
    kind = entry.one_of("type", "parameter type", tuple(_PARAMETERS), "")
    key = entry.required_name("key", "my_parameter", "a parameter needs a key")
    message = f"display_name of the parameter {key!r} is missing"
    entry.required_name("display_name", f'"{key or "…"}"', message)
    entry.text("description")
    nullable, default = entry.flag("nullable"), entry.raw("default_value")
    usage = ""
    if kind == "model" and entry.raw("usage") is not None:
        usage = entry.one_of("usage", "usage", _USAGES, "")
    check = _PARAMETERS[kind](entry) if kind else _any_value
    entry.close(f"a parameter of type {kind}" if kind else "a parameter")
    if not kind or not key:
        return None
    place = entry.place("key")
    one = Parameter(key, kind, place, check, nullable=nullable, usage=usage)
    if default is not None:
        try:
            return one._replace(default=one.checked(default))
        except ValueError as error:
            entry.problem("default_value", f"default_value: {error}")
    return one


def _string_parameter(entry: Keys) -> Check:
    if "string_kind" in entry:
        entry.one_of("string_kind", "string_kind", _KINDS, _KINDS[0])
    entry.text("default_file_content")
    for example in entry.entries("examples"):
        for key in ("value", "display_name"):
            if not isinstance(example.raw(key), str):
                example.problem(key, f"{key} of an example must be a string")
        example.close("an example")
    return any_text


def _number(entry: Keys, base: Check) -> Check:
    least, most = _bound(entry, "min", base), _bound(entry, "max", base)
    if least is not None and most is not None and least > most:
        entry.problem("min", f"min ({least}) must be at most max ({most})")

    def check(value: Any) -> Any:
        number = base(value)
        if least is not None and number < least:
            raise ValueError(f"at least {least}")
        if most is not None and number > most:
            raise ValueError(f"at most {most}")
        return number

    return check


def _bound(entry: Keys, key: str, base: Check) -> Any:
    value = entry.raw(key)
    try:
        return None if value is None else base(value)
    except ValueError as error:
        entry.problem(key, f"{key} must be {error}, not {value!r}")
        return None


def _category(entry: Keys) -> Check:
    allowed = entry.take("allowed_values", list, [])
    if not allowed:
        fix = 'allowed_values: ["easy", "hard"]'
        entry.problem("allowed_values", "allowed_values must be a list of strings", fix)
    for number, word in enumerate(allowed):
        if not isinstance(word, str):
            message = f"allowed_values must contain strings, not {word!r}"
            fix = _QUOTE if isinstance(word, bool) else f"quote it: {str(word)!r}"
            entry.entry_problem("allowed_values", number, message, fix)
    multiple, mapping = entry.flag("multiple"), _mapping(entry, allowed)

    def check(value: Any) -> Any:
        several = multiple and isinstance(value, list)
        for one in value if several else [value]:
            if one not in allowed:
                hint = did_you_mean(str(one), [str(word) for word in allowed])
                words = ", ".join(map(repr, allowed))
                raise ValueError(f"one of {words}{hint and f' ({hint[2:]})'}")
        if multiple:
            return value if several else [value]
        return mapping.get(value, value)

    return check


def _mapping(entry: Keys, allowed: Sequence[Any]) -> Mapping[str, Any]:
    mapping = entry.take("values_mapping", dict, {})
    for name, value in mapping.items():
        if name not in allowed:
            message = f"{name!r} is not one of allowed_values"
            hint = did_you_mean(str(name), [str(word) for word in allowed])
            entry.problem("values_mapping", f"values_mapping: {message}{hint}")
        if not isinstance(value, int | float | bool | str):
            message = f"{name!r} must map to a number, a string or a boolean"
            entry.problem("values_mapping", f"values_mapping: {message}")
    return mapping


def _each(entry: Keys, key: str, container: type[Any], noun: str) -> Check:
    """Return the check of a list or mapping, whose items have the type under a key."""
    kind = entry.values["type"]
    if not entry.need(key, "string", f"a parameter of type {kind} needs {key}"):
        return _any_value
    one = _DTYPES[entry.one_of(key, key, tuple(_DTYPES), "string")]

    def check(value: Any) -> Any:
        if not isinstance(value, container):
            raise ValueError(noun)
        try:
            if isinstance(value, dict):
                return {str(name): one(inner) for name, inner in value.items()}
            return [one(inner) for inner in value]
        except ValueError as error:
            each = "each value" if isinstance(value, dict) else "each item"
            raise ValueError(f"{noun}, {each} {error}") from None

    return check


def _any_value(value: Any) -> Any:
    return value


def any_text(value: Any) -> str:
    """Return a string; raises the error of a check for any other value."""
    if not isinstance(value, str):
        raise ValueError("a string")
    return value


def _integer(value: Any) -> int:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError("an integer")
    return value


def _float(value: Any) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or math.isnan(value):
        raise ValueError("a number")
    return float(value)


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("true or false")
    return value


_DTYPES: Mapping[str, Check] = {
    "string": any_text,
    "integer": _integer,
    "float": _float,
    "boolean": _boolean,
}
"""Type of the items of a list or mapping → check."""
_PARAMETERS: Mapping[str, Callable[[Keys], Check]] = {
    "float": lambda entry: _number(entry, _float),
    "int": lambda entry: _number(entry, _integer),
    "boolean": lambda _entry: _boolean,
    "string": _string_parameter,
    "model": lambda _entry: any_text,  # the values of these are keys or names
    "dataset": lambda _entry: any_text,
    "dataset_column": lambda _entry: any_text,
    "task_result": lambda _entry: any_text,
    "list": lambda entry: _each(entry, "dtype", list, "a list"),
    "categorical": _category,
    "dict": lambda entry: _each(entry, "value_dtype", dict, "a mapping"),
}
"""Type → reader of the keys of that type, which returns the check of values."""
