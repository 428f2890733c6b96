"""The difference of independent estimates, compared with published limits."""

import pytest

from pytest_evals.stats.independent import IndependentDifference
from pytest_evals.stats.interval_methods import NormalEstimate


def test_limits_of_normal_estimates_are_those_of_their_difference():
    found = IndependentDifference(NormalEstimate(0.7, 0.03), NormalEstimate(0.6, 0.04))
    assert found.interval(0.95) == pytest.approx((0.1 - 0.0822, 0.1 + 0.0822), abs=1e-4)
    for bound in (-0.1, 0.05, 0.0178):
        p = found.p_greater(bound)
        assert found.interval(1 - p).low == pytest.approx(bound, abs=1e-9)
    assert found.p_less(0.0) == 1.0
