"""The interval and the p-value of every method agree; both compared with scipy, and
proportions and bounded means with their nominal coverage."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from pytest_evals.stats.interval_methods import (
    ExactValue,
    NormalEstimate,
    Proportion,
    WidestInterval,
)
from pytest_evals.stats.mean_limits import bounded_mean

CONFIDENCE = st.sampled_from([0.8, 0.9, 0.95, 0.99])
COUNTS = st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@pytest.mark.slow
@given(COUNTS, CONFIDENCE)
def test_limits_of_a_proportion_are_scipys_exact_ones(counts, confidence):
    total, n = counts
    found = Proportion(total, n).interval(confidence)
    # scipy's level is that of the two-sided interval
    known = stats.binomtest(total, n).proportion_ci(2 * confidence - 1, "exact")
    assert found == pytest.approx((known.low, known.high), abs=1e-9)


@pytest.mark.parametrize(("total", "n"), [(0.3, 4.7), (7e5, 1e6), (1, 3e5), (9e3, 9e3)])
def test_limits_of_fractional_and_large_counts_have_all_digits(total, n):
    found = Proportion(total, n).interval(0.95)
    low = stats.beta.ppf(0.05, total, n - total + 1)
    high = stats.beta.isf(0.05, total + 1, n - total) if total < n else 1.0
    assert found == pytest.approx((low, high), rel=1e-12)


@given(COUNTS, st.integers(0, 100))
def test_p_values_of_a_proportion_are_scipys_binomial_test(counts, percent):
    total, n = counts
    bound, one = percent / 100, Proportion(*counts)
    less = stats.binomtest(total, n, bound, alternative="less").pvalue
    greater = stats.binomtest(total, n, bound, alternative="greater").pvalue
    assert one.p_less(bound) == pytest.approx(less, abs=1e-9)
    assert one.p_greater(bound) == pytest.approx(greater, abs=1e-9)


@pytest.mark.slow
@given(st.lists(st.integers(0, 1), min_size=1, max_size=200), CONFIDENCE)
@settings(deadline=None)
def test_limits_of_zeros_and_ones_are_those_of_a_proportion(values, confidence):
    known = Proportion(sum(values), len(values)).interval(confidence)
    assert bounded_mean(values).interval(confidence) == pytest.approx(known, abs=1e-6)


@pytest.mark.parametrize("sizes", [[1], [1, 2, 7]])
def test_p_value_of_a_bounded_mean_is_that_of_drawn_exponential_weights(sizes):
    """Simulated: each cluster and one pseudo-cluster at the end of the range weigh as
    much as an exponential draw."""
    rng = np.random.default_rng(5)
    labels = np.repeat(np.arange(40), rng.choice(sizes, 40))
    values = rng.beta(0.4, 0.2, len(labels))
    clusters = None if sizes == [1] else labels.tolist()
    found = bounded_mean(values.tolist(), clusters=clusters)
    weights = rng.exponential(size=(200_000, 41))
    size = np.bincount(labels)
    typical = (size**2).sum() / size.sum()
    for bound in (0.5, 0.6, 0.7):
        away = np.append(np.bincount(labels, values) - bound * size, -bound * typical)
        known = (weights @ away <= 0).mean()
        assert found.p_greater(bound) == pytest.approx(known, abs=0.006)
        away[-1] = (1 - bound) * typical
        known = (weights @ away >= 0).mean()
        assert found.p_less(bound) == pytest.approx(known, abs=0.006)


def test_equal_values_have_limits_by_their_number():
    """(1 - d)^n is the probability to miss a proportion d: closed forms."""
    found = bounded_mean([1.0] * 100).interval(0.95)
    assert found == pytest.approx((0.05 ** (1 / 100), 1.0), abs=1e-7)
    found = bounded_mean([0.0] * 100, low=-1).interval(0.95)
    reach = 1 - 0.05 ** (1 / 100)
    assert found == pytest.approx((-reach, reach), abs=1e-7)


@pytest.mark.slow
@given(
    st.lists(st.floats(0, 1), min_size=2, max_size=60),
    st.integers(2, 6),
    CONFIDENCE,
)
@settings(deadline=None)
def test_clusters_never_make_limits_narrower(values, n_clusters, confidence):
    labels = [i % n_clusters for i in range(len(values))]
    alone = bounded_mean(values).interval(confidence)
    together = bounded_mean(values, clusters=labels).interval(confidence)
    assert together.low <= alone.low + 1e-9
    assert together.high >= alone.high - 1e-9


@pytest.mark.slow
@given(st.lists(st.floats(-1, 1), min_size=1, max_size=60), CONFIDENCE)
@settings(deadline=None)
def test_limits_of_a_bounded_mean_stay_in_its_range_and_hold_it(values, confidence):
    one = bounded_mean(values, low=-1)
    low, high = one.interval(confidence)
    assert -1 <= low <= one.value + 1e-9
    assert one.value - 1e-9 <= high <= 1


@pytest.mark.slow
@given(
    st.lists(st.sampled_from([0, 0.25, 0.9, 1]), min_size=1, max_size=60),
    st.floats(0, 1),
    CONFIDENCE,
)
@settings(deadline=None)
def test_p_values_and_limits_of_a_bounded_mean_agree(values, bound, confidence):
    one = bounded_mean(values)
    found = one.interval(confidence)
    alpha = 1 - confidence
    for p, is_beyond in (
        (one.p_less(bound), found.high < bound),
        (one.p_greater(bound), found.low > bound),
    ):
        assume(abs(p - alpha) > 1e-6)
        assert is_beyond == (p < alpha)


def test_values_outside_of_the_range_are_refused():
    with pytest.raises(ValueError, match=r"1\.5 is outside of the range \[0, 1\]"):
        bounded_mean([0.5, 1.5])


def test_very_many_distinct_values_have_the_limits_of_a_normal_mean():
    values = np.random.default_rng(0).random(20_000)
    found = bounded_mean(values.tolist()).interval(0.95)
    reach = stats.norm.ppf(0.95) * values.std() / math.sqrt(20_000)
    known = (values.mean() - reach, values.mean() + reach)
    assert found == pytest.approx(known, abs=0.03 * reach)


@pytest.mark.parametrize("df", [3, 40, math.inf])
@given(st.floats(-3, 3), CONFIDENCE)
def test_interval_and_test_of_a_mean_agree(df, bound, confidence):
    mean = NormalEstimate(0.5, 0.4, df)
    known = stats.norm if math.isinf(df) else stats.t(df)
    p = mean.p_less(bound)
    assert p == pytest.approx(known.cdf((0.5 - bound) / 0.4), abs=1e-9)
    assert mean.p_greater(bound) == pytest.approx(1 - p)
    assume(abs(p - (1 - confidence)) > 1e-9)
    assert (mean.interval(confidence).high < bound) == (p < 1 - confidence)


@given(st.floats(-100, 100), st.floats(0.001, 10), st.integers(1, 5000), CONFIDENCE)
def test_the_limits_of_a_mean_are_those_of_scipys_t(value, stderr, df, confidence):
    found = NormalEstimate(value, stderr, df).interval(confidence)
    reach = stats.t.ppf(confidence, df) * stderr
    assert found == pytest.approx((value - reach, value + reach), rel=1e-9, abs=1e-9)


def test_a_number_with_known_ends_has_limits_between_them():
    assert NormalEstimate(0.9, 0.2, low=0, high=1).interval(0.95).high == 1


def test_numbers_without_uncertainty_are_certain():
    assert ExactValue().interval(0.99) == (0, 0)
    assert (ExactValue().p_less(-0.01), ExactValue().p_less(0.01)) == (1, 0)
    assert (NormalEstimate(0.5, 0).p_less(0.4), NormalEstimate(0.5, 0).p_less(0.6)) == (
        1,
        0,
    )


def test_the_widest_of_several_methods_counts():
    both = WidestInterval((NormalEstimate(0.5, 0.1), NormalEstimate(0.5, 0.2)))
    assert both.interval(0.95) == NormalEstimate(0.5, 0.2).interval(0.95)
    assert both.p_less(0.6) == NormalEstimate(0.5, 0.2).p_less(0.6)


@pytest.mark.parametrize(
    "one",
    [
        Proportion(70, 100),
        bounded_mean([0.0, 0.5, 1.0, 1.0] * 25),
        NormalEstimate(0.7, 0.02, 99),
    ],
)
def test_four_times_as_many_documents_halve_the_uncertainty(one):
    low, high = one.interval(0.95)
    narrow = one.scaled(4).interval(0.95)
    ratio = (narrow.high - narrow.low) / (high - low)
    assert ratio == pytest.approx(0.5, abs=0.02)


def test_pseudo_documents_move_the_limits_of_larger_samples_less():
    """One more of 80 documents moves the estimate by 0.04, one more of 8,000 by a
    hundredth of that: the limits approach the estimate."""
    found = WidestInterval(
        (NormalEstimate(0.84, 0.05), NormalEstimate(0.89, 0.05)), 0.88
    )
    assert found.p_greater(0.85) > 0.5
    low, high = found.scaled(100).interval(0.95)
    assert low == pytest.approx(0.88 - 0.0004 - 1.645 * 0.005, abs=1e-4)
    assert high == pytest.approx(0.88 + 0.0001 + 1.645 * 0.005, abs=1e-4)
