"""Plain values keep their types through a line of JSON."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_evals.plugin.workers.serialization import plain_text, plain_value

SIMPLE = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.complex_numbers(allow_nan=False)
)
VALUES = st.recursive(
    SIMPLE,
    lambda inside: (
        st.lists(inside)
        | st.lists(inside).map(tuple)
        | st.dictionaries(st.text() | st.integers(), inside)
        | st.sets(st.integers())
        | st.frozensets(st.text())
    ),
    max_leaves=8,
)


def typed(value):
    """A value with the types of all its parts."""
    if isinstance(value, dict):
        return dict, [(typed(k), typed(v)) for k, v in value.items()]
    if isinstance(value, list | tuple):
        return type(value), [*map(typed, value)]
    return type(value), value


@pytest.mark.slow
@given(VALUES)
def test_values_come_back_with_their_types(value):
    text = plain_text(value)
    assert "\n" not in text
    assert typed(plain_value(text)) == typed(value)


def test_numbers_that_are_not_finite_come_back():
    found = plain_value(plain_text((math.nan, math.inf, -math.inf)))
    assert math.isnan(found[0])
    assert found[1:] == (math.inf, -math.inf)


def test_other_types_are_refused():
    with pytest.raises(ValueError, match="type object is not plain Python"):
        plain_text((1, object()))


@pytest.mark.parametrize(
    "text", ["{}", '{"list":1}', '{"evil":[]}', "[", '{"a":1,"b":2}']
)
def test_other_texts_are_refused(text):
    with pytest.raises(ValueError):
        plain_value(text)
