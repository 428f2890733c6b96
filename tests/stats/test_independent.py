"""Shares of finite sets: limits by their definition, with scipy's hypergeometric."""

import itertools

import pytest
from scipy.stats import hypergeom

from pytest_evals.stats.independent import SampledShare

SIZES = [(k, n, size) for size in (1, 20, 31) for n in (1, 5, 20) for k in (0, 1, 3, 5)]


@pytest.mark.parametrize(
    ("k", "n", "size"), [one for one in SIZES if one[0] <= one[1] <= one[2]]
)
def test_limits_are_the_counts_that_the_sample_does_not_exclude(k, n, size):
    possible = range(k, size - n + k + 1)
    kept_low = [m for m in possible if hypergeom.sf(k - 1, size, m, n) > 0.05]
    kept_high = [m for m in possible if hypergeom.cdf(k, size, m, n) > 0.05]
    low, high = SampledShare(k, n, size, whole=100, known=0.5).interval(0.95)
    assert low == pytest.approx(0.5 + min(kept_low) / 100)
    assert high == pytest.approx(0.5 + max(kept_high) / 100)


def test_a_sample_of_the_whole_set_has_no_error_and_an_empty_one_no_information():
    for k in range(5):
        assert SampledShare(k, 4, 4, 10).interval(0.95) == (k / 10, k / 10)
    assert SampledShare(0, 0, 4, 10).interval(0.95) == (0, 0.4)


def test_limits_of_each_share_hold_in_at_least_95_percent_of_samples():
    """Summed over all samples of 10 of 40 documents."""
    for m, side in itertools.product(range(41), (0, 1)):
        wrong = 0.0
        for k in range(max(0, m - 30), min(10, m) + 1):
            low, high = SampledShare(k, 10, 40, 40).interval(0.95)
            excluded = low * 40 > m + 1e-9 if side else high * 40 < m - 1e-9
            wrong += hypergeom.pmf(k, 40, m, 10) * excluded
        assert wrong <= 0.05 + 1e-9
