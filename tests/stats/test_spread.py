"""Every spread says the same by its interval and by its tail; the tails against
scipy and statsmodels."""

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.proportion import proportions_ztest

from pytest_evals.stats.spread import Located, Share, Still

CONFIDENCE = st.sampled_from([0.8, 0.9, 0.95, 0.99])


def test_few_clusters_make_a_share_wider_by_students_t():
    """The score interval's ends solve (p - share)^2 = q^2 p (1 - p) / n, with scipy's
    quantile q of Student's t; and the tail is 5 % there."""
    share = Share(0.7, 50.0, n_clusters=8)
    q = stats.t.ppf(0.95, 7)
    for bound in share.interval(0.95):
        distance = (bound - 0.7) ** 2
        assert distance == pytest.approx(q * q * bound * (1 - bound) / 50)
    high = share.interval(0.95).high
    assert share.tail(high) == pytest.approx(0.05)


@given(st.integers(0, 500), st.integers(1, 99), CONFIDENCE)
def test_share_lies_below_the_bar_by_interval_where_it_does_by_test(
    right, percent, confidence
):
    bar = percent / 100
    share = Share(right / 500, 500)
    p = share.tail(bar)
    assume(abs(p - (1 - confidence)) > 1e-9)
    assert (share.interval(confidence).high < bar) == (p < 1 - confidence)


@given(st.integers(0, 300), st.integers(1, 99))
def test_tail_of_a_share_is_statsmodels_score_test(right, percent):
    bar = percent / 100
    _, known = proportions_ztest(
        right, 300, value=bar, alternative="smaller", prop_var=bar
    )
    assert Share(right / 300, 300).tail(bar) == pytest.approx(known, abs=1e-12)


@pytest.mark.parametrize("df", [3, 40, math.inf])
@given(st.floats(-3, 3), CONFIDENCE)
def test_mean_lies_below_the_bar_by_interval_where_it_does_by_test(df, bar, confidence):
    mean = Located(0.5, 0.4, df)
    known = stats.norm if math.isinf(df) else stats.t(df)
    p = mean.tail(bar)
    assert p == pytest.approx(known.cdf((0.5 - bar) / 0.4), abs=1e-9)
    assume(abs(p - (1 - confidence)) > 1e-9)
    assert (mean.interval(confidence).high < bar) == (p < 1 - confidence)


@pytest.mark.parametrize("bar", [-0.1, 0.0, 1.0, 1.5])
def test_share_beyond_what_shares_can_be_is_certain(bar):
    assert Share(0.5, 10).tail(bar) == (1.0 if bar <= 0 else 0.0)
    assert Share(1.0, 10).tail(1.0) == 1.0


def test_what_stood_still_is_certain():
    assert Still().interval(0.99) == (0, 0)
    assert (Still().tail(-0.01), Still().tail(0.01)) == (1, 0)
    assert (Located(0.5, 0).tail(0.4), Located(0.5, 0).tail(0.6)) == (1, 0)
