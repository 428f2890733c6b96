"""Standard errors and probabilities of plans."""

import pytest
from scipy.stats import norm

from pytest_evals.gates.power import chance_below


def test_probabilities_are_those_of_the_normal_distribution():
    assert chance_below(0.7, 0.72, 0.01) == pytest.approx(norm.cdf(-2))
    assert (chance_below(0.7, 0.7, 0), chance_below(0.7, 0.69, 0)) == (0, 1)
