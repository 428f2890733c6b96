"""Intervals against scipy's own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pytest_evals.stats.intervals import student

CONFIDENCE = st.sampled_from([0.8, 0.9, 0.95, 0.99])


@given(st.floats(-100, 100), st.floats(0.001, 10), st.integers(1, 5000), CONFIDENCE)
def test_student_is_scipys_t(value, stderr, df, confidence):
    found = student(value, stderr, df, confidence)
    reach = stats.t.ppf(confidence, df) * stderr
    assert found == pytest.approx((value - reach, value + reach), rel=1e-9, abs=1e-9)
