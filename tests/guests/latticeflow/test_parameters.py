"""Values of parameters, and their sources."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_evals.dialects.yaml_reader.yaml_file import YamlFile
from pytest_evals.errors import Place, Problem
from pytest_evals.guests.latticeflow.fields import Keys
from pytest_evals.guests.latticeflow.parameters import (
    Parameter,
    ParameterValue,
    read_parameters,
    resolve_values,
)

HERE = Place(Path("run.yaml"), 7)


def parameters(*specs: dict[str, Any]) -> tuple[Parameter, ...]:
    entries = [{"key": "p", "display_name": "P", **spec} for spec in specs]
    file = YamlFile(path=Path("t.yaml"), values={"config_spec": entries})
    problems: list[Problem] = []
    found = read_parameters(Keys(file, problems))
    assert not problems, problems
    return found


def value(spec: dict[str, Any], *given: Any) -> Any:
    """The value of a parameter, or the error in the given value."""
    problems: list[Problem] = []
    values_by_name = {"p": ParameterValue(given[0], HERE)} if given else {}
    values = resolve_values(
        parameters(spec), values_by_name, problems, lambda _one: None
    )
    return [problem.message for problem in problems] if problems else values["p"]


def test_a_value_precedes_the_default_and_the_default_precedes_null() -> None:
    spec = {"type": "int", "default_value": 3, "nullable": True}
    assert (value(spec, 4), value(spec), value(spec, None)) == (4, 3, None)
    assert value({"type": "int", "nullable": True}) is None
    assert value({"type": "int"}) == ["the parameter 'p' has no value"]
    assert value({"type": "int"}, None) == ["p must be an integer, not None"]


@pytest.mark.parametrize(
    ("spec", "given", "expected"),
    [
        ({"type": "float"}, 1, 1.0),
        ({"type": "float", "min": 0, "max": 1}, 1.0, 1.0),
        ({"type": "int"}, 2.0, 2),
        ({"type": "int", "min": 2}, 2, 2),
        ({"type": "boolean"}, False, False),
        ({"type": "string"}, "", ""),
        ({"type": "list", "dtype": "float"}, [1, 2.5], [1.0, 2.5]),
        ({"type": "list", "dtype": "boolean"}, [], []),
        ({"type": "dict", "value_dtype": "integer"}, {"a": 1}, {"a": 1}),
        ({"type": "categorical", "allowed_values": ["a", "b"]}, "b", "b"),
        (
            {"type": "categorical", "allowed_values": ["a", "b"], "multiple": True},
            ["b", "a"],
            ["b", "a"],
        ),
        (
            {"type": "categorical", "allowed_values": ["a"], "multiple": True},
            "a",
            ["a"],
        ),
        (
            {
                "type": "categorical",
                "allowed_values": ["low"],
                "values_mapping": {"low": 0.1},
            },
            "low",
            0.1,
        ),
        ({"type": "task_result"}, "earlier", "earlier"),
    ],
)
def test_values_that_are_taken(spec: dict[str, Any], given: Any, expected: Any) -> None:
    found = value(spec, given)
    assert (found, type(found)) == (expected, type(expected))


@pytest.mark.parametrize(
    ("spec", "given", "what"),
    [
        ({"type": "float"}, "0.5", "p must be a number, not '0.5'"),
        ({"type": "float"}, True, "p must be a number, not True"),
        ({"type": "float"}, float("nan"), "p must be a number, not nan"),
        ({"type": "int"}, 2.5, "p must be an integer, not 2.5"),
        ({"type": "int", "max": 3}, 4, "p must be at most 3, not 4"),
        ({"type": "int", "min": 3}, 2, "p must be at least 3, not 2"),
        ({"type": "boolean"}, 1, "p must be true or false, not 1"),
        ({"type": "string"}, 3, "p must be a string, not 3"),
        ({"type": "dataset"}, ["a"], "p must be a string, not ['a']"),
        ({"type": "list", "dtype": "string"}, "a", "p must be a list, not 'a'"),
        (
            {"type": "categorical", "allowed_values": ["a", "b"]},
            ["a"],
            "p must be one of 'a', 'b', not ['a']",
        ),
    ],
)
def test_values_that_are_refused(spec: dict[str, Any], given: Any, what: str) -> None:
    assert value(spec, given) == [what]


def test_a_value_of_no_parameter_is_refused_with_the_nearest() -> None:
    problems: list[Problem] = []
    one = parameters({"type": "string", "default_value": "x"})
    resolve_values(one, {"pp": ParameterValue(1, HERE)}, problems, lambda _one: None)
    assert str(problems[0]) == "run.yaml:7: unknown parameter 'pp'; did you mean 'p'?"
