"""Scorers of structured output: the ``data`` of a response, or the JSON in its text."""

from __future__ import annotations

import json as json_library
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pytest_evals.core.case import Case
from pytest_evals.core.finite import is_finite
from pytest_evals.core.record import Score
from pytest_evals.core.request import Response
from pytest_evals.core.returned import compact
from pytest_evals.errors import EvalsError, abbreviated, plural, suggestion
from pytest_evals.limits.patterns import compiled
from pytest_evals.scorers.answers import AnswerScorer, binary
from pytest_evals.scorers.arguments import checked_arguments
from pytest_evals.scorers.json_answers import (
    found_at,
    json_values,
    path_steps,
    validator,
    without_fence,
)
from pytest_evals.scorers.templates import ScorerTemplate, readings, templates_in

MISSING = object()  # no value


@checked_arguments
def equals(*, tolerance: float = 0.0, name: str = "equals") -> AnswerScorer:
    """Whether the data of an answer equals the target as JSON values: 4 equals 4.0 and
    not true. Text of the target is read as JSON if it is JSON.

    ``tolerance``: largest difference of two numbers."""

    def score(response: Response, case: Case) -> Score:
        found, shown = data_of(response)
        target = case.target
        if isinstance(target, str):
            target = _json(target, target)
            found = response.text.strip() if found is MISSING else found
        if found is MISSING:
            return binary(False, "the answer is not JSON", shown)
        fault = difference(found, target, tolerance)
        return binary(not fault, fault, shown)

    return _scorer(name, score, {"equals": {"tolerance": tolerance}})


@checked_arguments
def json_path(
    paths: Mapping[str, Any], *, tolerance: float = 0.0, name: str = "json_path"
) -> AnswerScorer:
    """Whether values of the data are as expected.

    Args:
        paths: Path, such as ``$.items[0].price`` or ``$.items[*].id`` for all, → the
            value, or conditions: ``equals``, ``one_of``, ``contains``, ``matches`` (a
            regular expression), ``at_least``, ``at_most``, ``length``, ``exists``.
            Texts are templates over the case's row.
        tolerance: Largest difference of two numbers.

    Raises EvalsError if a path or a condition is invalid.
    """
    conditions = {path: _conditions(one, path) for path, one in paths.items()}
    steps = {path: path_steps(path) for path in paths}

    def score(response: Response, case: Case) -> Score:
        data, shown = data_of(response)
        if data is MISSING:
            return binary(False, "the answer is not JSON", shown)
        for path, wanted in conditions.items():
            found = [*_each(data, steps[path])]
            for condition, value in wanted.items():
                faults = [
                    _fault(condition, one, found, tolerance)
                    for one in readings(value, case, f"{name}: {path}")
                ]
                if all(faults):
                    return binary(False, f"{path} {faults[0]}", shown)
        return binary(True, "", shown)

    settings = {"json_path": {"paths": dict(paths), "tolerance": tolerance}}
    return _scorer(name, score, settings, tuple(templates_in(conditions, name)))


@checked_arguments
def contains_json(
    schema: Mapping[str, Any] | None = None, *, name: str = "contains_json"
) -> AnswerScorer:
    """Whether the answer contains a JSON object or list anywhere, which is valid under
    a JSON Schema if one is given.

    Raises MissingExtraError if jsonschema is not installed, EvalsError if the schema is
    invalid."""
    fault_of = None if schema is None else validator(schema)

    def score(answer: str, case: Case) -> Score:
        faults = [fault_of(one) if fault_of else "" for one in json_values(answer)]
        why = f"invalid under the schema: {faults[0]}" if faults else "contains no JSON"
        return binary("" in faults, why, answer)

    settings = {"contains_json": {"schema": schema}}
    return AnswerScorer(name=name, score=score, settings=settings)


def data_of(response: Response) -> tuple[Any, str]:
    """Return the data of a response, :data:`MISSING` without any, and its text."""
    if response.data is not None:
        return response.data, compact(response.data)
    text = without_fence(response.text)
    return _json(text, MISSING), text


def difference(found: Any, expected: Any, tolerance: float = 0.0, at: str = "$") -> str:
    """Return the first difference of two JSON values, empty if they are equal."""
    if isinstance(found, Mapping) and isinstance(expected, Mapping):
        pairs = {
            f"{at}.{key}": (found.get(key, MISSING), expected.get(key, MISSING))
            for key in {**expected, **found}
        }
    elif isinstance(found, list | tuple) and isinstance(expected, list | tuple):
        if len(found) != len(expected):
            return f"{at} has {plural(len(found), 'item')}, expected {len(expected)}"
        both = zip(found, expected, strict=True)
        pairs = {f"{at}[{n}]": pair for n, pair in enumerate(both)}
    elif MISSING in (found, expected):
        return f"{at} is {'missing' if found is MISSING else 'unexpected'}"
    elif _is_equal(found, expected, tolerance):
        return ""
    else:
        return f"{at} is {_cut(found)}, expected {_cut(expected)}"
    faults = (difference(*pair, tolerance, where) for where, pair in pairs.items())
    try:
        return next(filter(None, faults), "")
    except RecursionError:
        return f"{at[:80]} is nested too deeply"


def _is_equal(one: Any, other: Any, tolerance: float) -> bool:
    if _is_number(one) and _is_number(other):
        # Integers that no float can hold are equal or differ by more
        are_floats = is_finite(one) and is_finite(other)
        return one == other or (are_floats and abs(one - other) <= tolerance)
    return bool(one == other and type(one) is type(other))


def _cut(value: Any) -> str:
    return abbreviated(compact(value), 80)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _json(text: str, otherwise: Any) -> Any:
    try:
        return json_library.loads(text)
    except (ValueError, RecursionError):
        return otherwise


Test = Callable[[Any, Any, float], bool]
_TESTS: Mapping[str, tuple[str, Test]] = {
    "equals": ("expected", lambda one, two, off: not difference(one, two, off)),
    "one_of": (
        "expected one of",
        lambda one, two, off: any(not difference(one, each, off) for each in two),
    ),
    "contains": ("does not contain", lambda one, two, off: _contains(one, two)),
    "matches": (
        "does not match",
        lambda one, two, off: bool(
            isinstance(one, str) and compiled(str(two)).matches(one)
        ),
    ),
    "at_least": (
        "expected at least",
        lambda one, two, off: _is_number(one) and one >= two - off,
    ),
    "at_most": (
        "expected at most",
        lambda one, two, off: _is_number(one) and one <= two + off,
    ),
    "length": (
        "expected length",
        lambda one, two, off: hasattr(one, "__len__") and len(one) == two,
    ),
}
"""Condition → its words in a message, and whether a value meets it."""


def _contains(value: Any, part: Any) -> bool:
    if isinstance(value, str):
        return str(part) in value
    if isinstance(value, list | tuple):
        return any(not difference(one, part) for one in value)
    return isinstance(value, Mapping) and isinstance(part, str) and part in value


def _each(data: Any, steps: list[str | int | None]) -> Iterator[Any]:
    """The values at a path; :data:`MISSING` for each item of ``[*]`` without one."""
    start = max((n for n, one in enumerate(steps, start=1) if one is None), default=0)
    for item in found_at(data, steps[:start]):
        found = [*found_at(item, steps[start:])]
        yield from found or ([MISSING] if start else [])


def _fault(condition: str, expected: Any, found: list[Any], tolerance: float) -> str:
    if condition == "exists":
        there = [one is not MISSING for one in found]
        if expected:
            return "" if there and all(there) else "is missing"
        return "exists" if any(there) else ""
    if not found or any(one is MISSING for one in found):
        return "is missing"
    words, test = _TESTS[condition]
    for one in found:
        if not test(one, expected, tolerance):
            return f"is {_cut(one)}, {words} {_cut(expected)}"
    return ""


def _conditions(given: Any, path: str) -> Mapping[str, Any]:
    known = [*_TESTS, "exists"]
    if not isinstance(given, Mapping):
        return {"equals": given}
    for name, value in given.items():
        if name not in known:
            raise EvalsError(
                f"json_path: {path}: unknown condition {name!r}"
                f"{suggestion(str(name), known)}\n  fix: to compare with a mapping, "
                "write equals: {…}"
            )
        if name == "one_of" and not isinstance(value, list | tuple):
            raise EvalsError(f"json_path: {path}: one_of is not a list")
        if name == "exists" and not isinstance(value, bool):
            raise EvalsError(f"json_path: {path}: exists is not true or false")
        if name in ("at_least", "at_most", "length") and not _is_number(value):
            raise EvalsError(f"json_path: {path}: {name} is not a number")
        if name == "matches":
            try:
                compiled(str(value))
            except re.error as error:
                raise EvalsError(f"json_path: {path}: matches: {error}") from None
    return given


def _scorer(
    name: str,
    score: Callable[[Response, Case], Score],
    settings: Mapping[str, Any],
    templates: tuple[ScorerTemplate, ...] = (),
) -> AnswerScorer:
    if any(one.get("tolerance", 0) < 0 for one in settings.values()):
        raise EvalsError(f"{name}: tolerance is below 0")
    return AnswerScorer(
        name=name,
        score=score,
        settings=settings,
        templates=templates,
        reads_response=True,
    )
