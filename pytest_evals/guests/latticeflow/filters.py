"""Filters of datasets and of ``actions``: compare a value of a document with a
constant. Actions exclude documents from a task's metrics.

Comparisons give LatticeFlow's results. Where LatticeFlow raises or silently never
matches (it does not treat a digit string as a number), both values are compared as
numbers if they look like numbers.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from pytest_evals.data.calls import FieldError
from pytest_evals.errors import DocumentError
from pytest_evals.guests.latticeflow.fields import Keys
from pytest_evals.guests.latticeflow.prompts.templates import (
    SampleTemplate,
    compile_expression,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleFilter:
    """One filter."""

    op: str
    expression: SampleTemplate  # selects the document's value
    expected: Any = None  # a list for membership tests, None for unary tests

    def matches(self, variables: Mapping[str, Any]) -> bool:
        """Return whether a document matches the filter."""
        if self.op in ("exists", "not_exists"):
            return self.expression.exists(variables) == (self.op == "exists")
        value = self.expression.value(variables)
        try:
            return _OPS[self.op].test(value, self.expected)
        except TypeError as error:
            message = f"{self.expression.field}: {self.op}: {error}"
            raise FieldError(message, self.expression.place) from None


def read_filter(section: Keys) -> SampleFilter:
    """Return a filter; errors are added to the problems of the section."""
    op = section.one_of("op", "filter operation", tuple(_OPS), "")
    text = section.take("expression", str, "")
    if not text:
        fix = 'expression: "{{ sample.split }}"'
        section.problem("expression", "a filter needs an expression", fix)
    expected = _expected(section, op)
    for key in () if op else ("value", "values"):
        section.raw(key)
    section.close(f"a filter with op: {op}" if op else "a filter")
    place = section.place("expression")
    expression = section.or_problems(compile_expression, text or "0", place)
    expression = expression or compile_expression("0", place)
    return SampleFilter(op=op, expression=expression, expected=expected)


def _expected(section: Keys, op: str) -> Any:
    takes = _OPS[op].takes if op else ""
    if takes == "values":
        values = section.raw("values")
        if not isinstance(values, list):
            message = f"{op} needs a list of values, not {values!r}"
            section.problem("values", message, 'values: ["l2", "l4"]')
            return []
        for one in values:
            if not isinstance(one, str | int | float):
                message = f"values must be strings, numbers or booleans, not {one!r}"
                section.problem("values", message)
        return values
    if not takes:
        return None
    value = section.raw("value")
    if not isinstance(value, str | int | float):
        message = f"{op} compares with a string, a number or a boolean, not {value!r}"
        section.problem("value", message, "value: test")
    elif takes == "number" and _number(value) is None:
        message = f"{op} compares with a number, not {value!r}"
        section.problem("value", message, "value: 3")
    return value


def _number(value: Any) -> float | None:
    """Return the value as a number, if it is one or looks like one."""
    if isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return None
    return None


def _equal(value: Any, expected: Any) -> bool:
    if value == expected:
        return True
    if isinstance(value, bool) or isinstance(expected, bool):
        return str(value).lower() == str(expected).lower()
    numbers = _number(value), _number(expected)
    if None not in numbers and numbers[0] == numbers[1]:
        return True
    return str(value) == str(expected)


def _ordered(test: Callable[[float, float], bool]) -> Callable[[Any, Any], bool]:
    def compare(value: Any, expected: Any) -> bool:
        left, right = _number(value), _number(expected)
        if left is None or right is None:
            raise TypeError(f"{value!r:.60} is not a number")
        return test(left, right)

    return compare


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    raise TypeError(f"{value!r:.60} is neither true nor false")


class _Op(NamedTuple):
    """An operation: the key that it takes, and its test of the two values."""

    takes: Literal["value", "number", "values", ""]  # a number is a value, too
    test: Callable[[Any, Any], bool]


_OPS: Mapping[str, _Op] = {
    "equals": _Op("value", _equal),
    "not_equals": _Op("value", lambda value, expected: not _equal(value, expected)),
    "greater_than": _Op("number", _ordered(operator.gt)),
    "less_than": _Op("number", _ordered(operator.lt)),
    "greater_or_equal": _Op("number", _ordered(operator.ge)),
    "less_or_equal": _Op("number", _ordered(operator.le)),
    "in": _Op("values", lambda value, known: any(_equal(value, x) for x in known)),
    "not_in": _Op(
        "values", lambda value, known: not any(_equal(value, x) for x in known)
    ),
    "exists": _Op("", lambda _value, _: True),  # by SampleFilter, without a value
    "not_exists": _Op("", lambda _value, _: False),
    "is_true": _Op("", lambda value, _: _boolean(value)),
    "is_false": _Op("", lambda value, _: not _boolean(value)),
}


def matching_rows(rows: list[Any], filters: Sequence[SampleFilter]) -> list[Any]:
    """Return the rows that match all filters; an error has the row's number."""
    matches = []
    for number, row in enumerate(rows):
        try:
            if all(one.matches({**row, "sample": row}) for one in filters):
                matches.append(row)
        except DocumentError as error:
            raise DocumentError(f"row {number}: {error}") from error
    return matches


Actions = Mapping[str, SampleFilter]
"""Key of an action → its filter: samples that match are excluded from all metrics."""


def read_actions(definition: Keys) -> Actions:
    """Return the exclusion rules of a task; errors go to the section's problems."""
    found: dict[str, SampleFilter] = {}
    for entry in definition.entries("actions"):
        key = entry.required_key("an action", "skip-empty")
        entry.one_of("action", "action", ("exclude_from_metrics",), "")
        fix = '{op: equals, expression: "{{ sample.split }}", value: train}'
        inner = entry.required_section("filter", fix, "an action needs a filter")
        condition = read_filter(inner)
        entry.close("an action")
        if key in found:
            entry.problem("key", f"duplicate action {key!r}")
        found[key] = condition
    return found


def excluding_action(actions: Actions, variables: Mapping[str, Any]) -> str:
    """Return the key of the first action that matches a sample, or an empty string.
    ``variables``: ``sample``, ``solver_output`` and ``scores``."""
    for key, condition in actions.items():
        try:
            if condition.matches(variables):
                return key
        except DocumentError as error:
            raise DocumentError(f"action {key!r}: {error}") from error
    return ""
