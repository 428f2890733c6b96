"""Variation between repeated runs, by enumeration and simulation."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_evals.stats.repeatability import repeatability


@given(
    st.integers(2, 5).flatmap(
        lambda k: st.lists(
            st.lists(st.integers(0, 1), min_size=7, max_size=7), min_size=k, max_size=k
        )
    )
)
def test_the_flip_rate_is_the_proportion_of_flips_over_all_pairs_of_runs(values):
    pairs = [
        sum(a != b for a, b in zip(one, other, strict=True)) / 7
        for one, other in combinations(values, 2)
    ]
    assert repeatability(values).rate == pytest.approx(np.mean(pairs))


def test_standard_deviation_of_a_run_is_estimated_from_two_runs():
    """Simulated: 1,319 documents, a few of which are random."""
    rng = np.random.default_rng(0)
    chances = np.repeat([0.0, 0.5, 1.0], [150, 60, 1109])
    means = (rng.random((400, 1319)) < chances).mean(axis=1)
    two = repeatability((rng.random((2, 1319)) < chances).astype(float).tolist())
    assert two.stderr == pytest.approx(means.std(), rel=0.25)
    assert two.rate == pytest.approx(0.5 * 60 / 1319, rel=0.5)


def test_equal_runs_have_no_variance():
    assert repeatability([[1, 0, 1], [1, 0, 1]]) == pytest.approx((2 / 3, 0, 0, 0))
