"""Intervals against scipy's and statsmodels' own, and against what they promise."""

import math
from statistics import NormalDist

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pytest_evals.stats.intervals import normal, sample_size, student, wilson

CONFIDENCE = st.sampled_from([0.8, 0.9, 0.95, 0.99])
COUNTS = st.integers(1, 3000).flatmap(
    lambda n: st.tuples(st.integers(0, n), st.just(n))
)


@given(COUNTS, CONFIDENCE)
def test_wilson_is_scipys_with_both_tails(counts, confidence):
    right, n = counts
    found = wilson(right / n, n, confidence)
    # scipy's level is of the two-sided interval.
    known = stats.binomtest(right, n).proportion_ci(2 * confidence - 1, "wilson")
    assert found.low == pytest.approx(known.low, abs=1e-12)
    assert found.high == pytest.approx(known.high, abs=1e-12)


@given(st.floats(-100, 100), st.floats(0.001, 10), st.integers(1, 5000), CONFIDENCE)
def test_student_is_scipys_t(value, stderr, df, confidence):
    found = student(value, stderr, df, confidence)
    reach = stats.t.ppf(confidence, df) * stderr
    assert found == pytest.approx((value - reach, value + reach), rel=1e-9, abs=1e-9)


def test_normal_reaches_as_far_as_its_quantile():
    found = normal(2.0, 0.5, 0.95)
    reach = stats.norm.ppf(0.95) * 0.5
    assert found == pytest.approx((2 - reach, 2 + reach))


@pytest.mark.parametrize("right", [0, 20])
def test_all_right_and_all_wrong_leave_room_on_the_other_side(right):
    found = wilson(right / 20, 20, 0.95)
    assert (found.low == 0) == (right == 0)
    assert (found.high == 1) == (right == 20)
    assert found.high - found.low > 0.1


def missed(n, p, confidence):
    """Chances that the true share lies below the lower, and above the upper bound,
    added up over all that may be seen."""
    below = above = 0.0
    for right in range(n + 1):
        chance = stats.binom.pmf(right, n, p)
        found = wilson(right / n, n, confidence)
        below += chance * (p < found.low)
        above += chance * (p > found.high)
    return below, above


@pytest.mark.parametrize("p", [0.5, 0.75, 0.9])
@pytest.mark.parametrize("n", [50, 100, 400])
def test_wilson_keeps_about_its_promise(n, p):
    """Both sides together, nominally 5 %, by summing over all that may be seen: the
    interval is known to miss by a little more for some shares, never by much."""
    below, above = missed(n, p, 0.975)
    assert below + above <= 0.065


@given(st.integers(10, 2000), st.floats(0.01, 0.2), st.floats(0.005, 0.3), CONFIDENCE)
def test_with_that_many_documents_the_bound_is_as_near(n, stderr, distance, confidence):
    needed = sample_size(n, stderr, distance, confidence)
    z = NormalDist().inv_cdf(confidence)
    assert z * stderr * math.sqrt(n / needed) <= distance * (1 + 1e-9)
    assert needed == 1 or z * stderr * math.sqrt(n / (needed - 1)) > distance * (
        1 - 1e-9
    )
