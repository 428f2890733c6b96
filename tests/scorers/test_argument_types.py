"""Wrong types of the arguments of scorers are errors of the file, not exceptions."""

from contextlib import suppress
from inspect import signature
from pathlib import Path

import pytest

from pytest_evals.dialects.native.scorers import SCORERS, scorer_of_entry
from pytest_evals.errors import EvalsError

VALUES = (5, -1, 0.5, "x", "", [], [1], ["a"], {"a": 1}, {}, True, [["a"]], [None])
NESTED = ([{"a": 1}], {1: 2}, {"a": {"b": [1]}}, {"a": {"min": "x"}}, float("inf"))


@pytest.mark.parametrize("name", SCORERS)
def test_no_value_of_an_argument_crashes(name: str) -> None:
    parameters = signature(SCORERS[name][0]).parameters
    for value in (*VALUES, *NESTED):
        for given in (value, *({one: value} for one in parameters)):
            with suppress(EvalsError):
                scorer_of_entry({name: given}, Path(), None)


def test_a_mapping_is_named() -> None:
    with pytest.raises(EvalsError, match=r"paths is 'a\.b', not a mapping of texts"):
        scorer_of_entry({"json_path": "a.b"}, Path(), None)
