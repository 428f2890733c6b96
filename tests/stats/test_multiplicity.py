"""Holm's correction against statsmodels."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from pytest_evals.stats.interval_methods import holm


@pytest.mark.slow
@settings(max_examples=8)  # statsmodels takes half a second
@given(st.lists(st.floats(0, 1), min_size=1, max_size=60))
def test_adjusted_values_are_statsmodels(p_values):
    known = multipletests(p_values, method="holm")[1]
    assert holm(p_values) == pytest.approx(known)


def test_nothing_is_corrected_to_nothing():
    assert holm([]) == []
