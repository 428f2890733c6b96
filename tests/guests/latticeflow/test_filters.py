"""Filters: upstream's rules (its client 3.17.0, ``filters``), and tolerance where these
raise or never match."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_evals.dialects.yaml_reader.yaml_file import YamlFile
from pytest_evals.errors import DocumentError, Problem
from pytest_evals.guests.latticeflow.fields import Keys
from pytest_evals.guests.latticeflow.filters import SampleFilter, read_filter

ROW = {
    "n": 3,
    "text": "3",
    "flag": True,
    "lower": "false",
    "none": None,
    "word": "test",
    "Departure Date": "2025-07-04",
}


def filter_of(**values: Any) -> SampleFilter:
    problems: list[Problem] = []
    file = YamlFile(path=Path("x.yaml"), values=values)
    found = read_filter(Keys(file, problems))
    assert found is not None and not problems, problems
    return found


@pytest.mark.parametrize(
    ("expression", "op", "value", "expected"),
    [
        ("{{ sample.word }}", "equals", "test", True),
        ("{{ word }}", "not_equals", "test", False),
        ("{{ sample['Departure Date'] }}", "equals", "2025-07-04", True),
        # a digit string equals the number, and the number the string
        ("{{ sample.text }}", "equals", 3, True),
        ("{{ sample.text }}", "equals", "3", True),
        ("{{ sample.n }}", "equals", "3", True),
        ("{{ sample.n }}", "equals", 3.0, True),
        ("{{ sample.flag }}", "equals", 1, True),
        ("{{ sample.lower }}", "equals", False, True),
        ("{{ sample.none }}", "equals", "None", True),
        ("{{ sample.n }}", "greater_than", 3, False),
        ("{{ sample.n }}", "greater_or_equal", 3, True),
        ("{{ sample.text }}", "less_than", 4, True),
        ("{{ sample.n + 1 }}", "less_or_equal", 4, True),
        # without braces it is still an expression
        ("sample.word", "equals", "test", True),
        ("{{ sample.word }}-{{ sample.n }}", "equals", "test-3", True),
        ("{{ sample.word == 'test' }}", "equals", True, True),
    ],
)
def test_comparisons(expression: str, op: str, value: Any, expected: bool) -> None:
    one = filter_of(op=op, expression=expression, value=value)
    assert one.matches({**ROW, "sample": ROW}) is expected


@pytest.mark.parametrize(
    ("expression", "values", "expected"),
    [
        ("{{ sample.text }}", ["3", "6"], True),
        ("{{ sample.text }}", [3, 6], True),
        ("{{ sample.word }}", ["test"], True),
        ("{{ sample.word }}", [], False),
    ],
)
def test_memberships(expression: str, values: list[Any], expected: bool) -> None:
    inside = filter_of(op="in", expression=expression, values=values)
    outside = filter_of(op="not_in", expression=expression, values=values)
    assert inside.matches({"sample": ROW}) is expected
    assert outside.matches({"sample": ROW}) is not expected


@pytest.mark.parametrize(
    ("expression", "op", "expected"),
    [
        ("{{ sample.none }}", "exists", True),
        ("{{ sample.nothing }}", "exists", False),
        ("{{ sample.nothing.deeper }}", "exists", False),
        ("{{ sample.nothing }}", "not_exists", True),
        ("{{ sample.flag }}", "is_true", True),
        ("{{ sample.lower }}", "is_false", True),
    ],
)
def test_unary(expression: str, op: str, expected: bool) -> None:
    assert filter_of(op=op, expression=expression).matches({"sample": ROW}) is expected


@pytest.mark.parametrize(
    ("values", "what"),
    [
        (
            {"op": "is_true", "expression": "{{ sample.n }}"},
            "is_true: 3 is neither true nor false",
        ),
        (
            {"op": "less_than", "expression": "{{ sample.word }}", "value": 3},
            "less_than: 'test' is not a number",
        ),
        (
            {"op": "equals", "expression": "{{ sample.wrod }}", "value": 3},
            "unknown field 'wrod'; did you mean 'word'?",
        ),
    ],
)
def test_incomparable_runs_are_an_error(values: dict[str, Any], what: str) -> None:
    with pytest.raises(DocumentError) as caught:
        filter_of(**values).matches({"sample": ROW})
    assert what in str(caught.value)
