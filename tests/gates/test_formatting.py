"""Formatting of numbers."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_evals.gates.terms import figure, figure_beside


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.78, "0.780"),
        (0.0, "0.000"),
        (0.00012345, "0.000123"),
        (-0.00000012345, "-1.23e-07"),
        (12345.6789, "12345.679"),
        (123456789.0, "1.23457e+08"),
        (float("nan"), "nan"),
    ],
)
def test_numbers_are_short(value, shown):
    assert figure(value) == shown


@pytest.mark.slow
@given(
    st.floats(-1e9, 1e9),
    st.decimals(-1000, 1000, places=4),
)
def test_next_to_a_threshold_rounding_never_changes_sides(value, bound):
    shown = Decimal(figure_beside(value, bound))
    if value > float(bound):
        assert shown > bound
    elif value < float(bound):
        assert shown < bound
