"""Strict JSON of any value."""

import json
from enum import IntEnum

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_evals.reports.strict import strict

ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=[]))
    | st.binary(max_size=9)
    | st.complex_numbers(),
    lambda inner: st.lists(inner) | st.dictionaries(st.integers() | st.text(), inner),
)


@pytest.mark.slow
@settings(max_examples=50)
@given(ANYTHING)
def test_anything_becomes_json_that_utf8_can_hold(value):
    made = strict(value)
    text = json.dumps(made, allow_nan=False, ensure_ascii=False)
    assert json.loads(text.encode("utf-8")) == made


class Level(IntEnum):
    HIGH = 3


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (np.float32(0.5), 0.5),
        (np.float64(0.5), 0.5),
        (np.int64(3), 3),
        (np.bool_(True), True),
        (np.array([[1, 2]]), [[1, 2]]),
        (Level.HIGH, 3),
        ((1, (2,)), [1, [2]]),
        ({"b", "a"}, ["a", "b"]),
        ({1: None}, {"1": None}),
        (b"x", "b'x'"),
        ("\ud800", "\\ud800"),
    ],
)
def test_values_of_other_kinds_keep_their_meaning(value, plain):
    made = strict(value)
    assert made == plain
    assert type(made) is type(plain)


def test_each_number_that_json_cannot_hold_is_null_with_a_note():
    notes = []
    value = {"a": {"x,none": float("nan")}, "b": [1.0, float("-inf")]}
    assert strict(value, notes) == {"a": {"x,none": None}, "b": [1.0, None]}
    assert notes == [
        "a.x,none: nan is not a JSON number; written as null",
        "b[1]: -inf is not a JSON number; written as null",
    ]
