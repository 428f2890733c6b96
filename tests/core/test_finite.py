"""Which values are numbers that a float can hold."""

from __future__ import annotations

import math
import sys

import pytest

from pytest_evals.core.finite import is_finite


@pytest.mark.parametrize("value", [0, -1, 0.5, sys.float_info.max, 2**1023, -(2**1023)])
def test_numbers_in_the_range_of_floats_are_finite(value):
    assert is_finite(value)
    assert math.isfinite(float(value))


@pytest.mark.parametrize(
    "value",
    [math.nan, math.inf, -math.inf, 10**400, -(10**400), True, "1", None, 1j, [1]],
)
def test_anything_else_is_not(value):
    assert not is_finite(value)
