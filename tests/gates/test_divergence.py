"""Divergences compared with scipy, and the bound from the top of two distributions."""

import math

import numpy as np
import pytest
from scipy.special import rel_entr, softmax

from pytest_evals.gates.two_run_metrics import divergence, least_divergence


def top(p, k):
    """The ``k`` most likely outcomes with their log-probabilities."""
    return {str(i): math.log(p[i]) for i in np.argsort(-np.asarray(p))[:k]}


def test_the_divergence_of_log_likelihoods_is_scipys_of_their_softmax():
    generator = np.random.default_rng(0)
    for _ in range(50):
        old, new = generator.normal(-20, 5, (2, 4))
        expected = rel_entr(softmax(old), softmax(new)).sum()
        assert divergence(old.tolist(), new.tolist()) == pytest.approx(expected)


def test_complete_distributions_have_their_own_divergence():
    p, q = [0.7, 0.2, 0.1], [0.5, 0.3, 0.2]
    expected = rel_entr(p, q).sum()
    assert least_divergence(top(p, 3), top(q, 3)) == pytest.approx(expected, abs=1e-5)


def test_outcomes_outside_of_both_tops_are_one_class():
    """By hand: the tops are {0: .6, 1: .3} and {0: .5, 1: .2}."""
    p, q = [0.6, 0.3, 0.06, 0.04], [0.5, 0.2, 0.15, 0.15]
    by_hand = (
        0.6 * math.log(0.6 / 0.5) + 0.3 * math.log(1.5) + 0.1 * math.log(0.1 / 0.3)
    )
    assert least_divergence(top(p, 2), top(q, 2)) == pytest.approx(by_hand, abs=1e-5)


def test_an_unlisted_outcome_is_at_most_as_likely_as_the_least_likely_listed_one():
    """By hand: 0 has .9 before, and now at most .2, as much as 2 has."""
    old = {"0": math.log(0.9), "1": math.log(0.05)}
    new = {"1": math.log(0.5), "2": math.log(0.2)}
    by_hand = 0.05 * math.log(0.1) + 0.9 * math.log(4.5) + 0.05 * math.log(0.05 / 0.3)
    assert least_divergence(old, new) == pytest.approx(by_hand, abs=1e-4)


def test_a_distribution_does_not_diverge_from_itself():
    p = np.random.default_rng(1).dirichlet([0.3] * 30)
    assert least_divergence(top(p, 5), top(p, 5)) == 0


@pytest.mark.slow
def test_the_bound_never_exceeds_the_divergence():
    generator = np.random.default_rng(2)
    for _ in range(3000):
        n, spread = generator.integers(2, 60), generator.choice([0.02, 0.1, 0.5, 2])
        p = generator.dirichlet([spread] * n) + 1e-12
        near = p * np.exp(generator.normal(0, generator.choice([0.01, 0.3, 2]), n))
        q = near if generator.random() < 0.5 else generator.dirichlet([spread] * n)
        p, q = p / p.sum(), (q + 1e-12) / (q + 1e-12).sum()
        k = int(generator.integers(1, 21))
        bound = least_divergence(top(p, k), top(q, k))
        assert 0 <= bound <= rel_entr(p, q).sum() + 1e-9
