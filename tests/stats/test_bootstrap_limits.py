"""The bootstrap's limits compared with scipy's over the same replicates, and with
resampling by hand."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pytest_evals.stats.bootstrap_limits import (
    Quotient,
    Replicates,
    bootstrap_t,
    resample,
    resample_sums,
)

VALUES = np.random.default_rng(5).gamma(1.5, size=60)
COLUMNS = (VALUES.tolist(), [1.0] * len(VALUES))


def mean(sums):
    return sums[0] / sums[1]


@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99])
def test_bounds_are_scipys(confidence):
    found = resample_sums(COLUMNS, mean)
    replicates = SimpleNamespace(bootstrap_distribution=np.array(found.ordered))
    known = stats.bootstrap(
        (VALUES,),
        np.mean,
        n_resamples=0,
        confidence_level=2 * confidence - 1,
        method="percentile",
        bootstrap_result=replicates,
    ).confidence_interval
    assert found.value == pytest.approx(VALUES.mean())
    assert found.interval(confidence) == pytest.approx((known.low, known.high))


def test_replicates_are_spread_like_the_mean():
    known = stats.bootstrap((VALUES,), np.mean, rng=1, n_resamples=4000)
    found = resample_sums(COLUMNS, mean)
    assert found.stderr == pytest.approx(known.standard_error, rel=0.05)


def test_the_same_documents_give_the_same_bounds():
    first = resample_sums(COLUMNS, mean)
    assert resample_sums(COLUMNS, mean) == first


@given(st.floats(-1.5, 1.5))
def test_the_tail_is_the_level_whose_limit_is_the_threshold(bar):
    ordered = stats.norm.ppf((np.arange(4000) + 0.5) / 4000).tolist()
    one = Replicates(0.0, ordered)
    p = one.p_less(bar)
    if 0.001 < p < 0.5:
        assert one.interval(1 - p).high == pytest.approx(bar, abs=0.01)
    elif 0.5 < p < 0.999:
        assert one.interval(p).low == pytest.approx(bar, abs=0.01)


def test_any_statistic_can_be_resampled():
    values = np.random.default_rng(2).normal(size=400)

    def median(counts):
        drawn = [np.repeat(values, row.astype(int)) for row in counts]
        return np.median(drawn, axis=1)

    found = resample(400, median, float(np.median(values)))
    known = stats.bootstrap((values,), np.median, rng=1, n_resamples=2000)
    assert found.stderr == pytest.approx(known.standard_error, rel=0.1)


@pytest.mark.slow
def test_many_documents_are_resampled_like_few():
    """Their positions are drawn in several parts."""
    values = np.random.default_rng(3).gamma(1.5, size=70_001)
    columns = (values.tolist(), [1.0] * len(values))
    found = resample_sums(columns, mean)
    known = values.std(ddof=1) / np.sqrt(len(values))
    assert found.stderr == pytest.approx(known, rel=0.05)
    assert np.mean(found.ordered) == pytest.approx(values.mean(), abs=known / 10)


@pytest.mark.parametrize("n", [2, 7, 150, 5000])
def test_each_resample_has_as_many_documents_as_there_are(n):
    found = resample_sums(([1.0] * n, range(n)), lambda sums: sums[0])
    assert {*found.ordered} == {n}
    middle = resample_sums((range(n), [1.0] * n), mean)
    spread = np.arange(n).std() / np.sqrt(n)
    assert middle.stderr == pytest.approx(spread, rel=0.05)


def test_limits_of_a_mean_are_those_of_resamples_by_hand():
    rng = np.random.default_rng(1)
    values = rng.lognormal(0, 1, 80)
    drawn = rng.choice(values, (20_000, 80))
    scores = (drawn.mean(1) - values.mean()) / (drawn.std(1, ddof=1) / math.sqrt(80))
    stderr = values.std(ddof=1) / math.sqrt(80)
    found = bootstrap_t(Quotient(values.tolist(), [1.0] * 80))
    assert found.value == pytest.approx(values.mean())
    assert found.stderr == pytest.approx(stderr)
    low, high = values.mean() - np.quantile(scores, [0.95, 0.05]) * stderr
    assert found.interval(0.95) == pytest.approx((low, high), abs=0.15 * stderr)


def test_change_of_a_ratio_has_the_textbook_error():
    """Cochran 1977, 6.13, of differences if the denominators are the same."""
    rng = np.random.default_rng(2)
    words = rng.integers(20, 200, 90).astype(float)
    old = words * rng.normal(3, 0.3, 90)
    new = old + words * rng.normal(0.02, 0.01, 90)
    found = bootstrap_t(Quotient(new, words), Quotient(old, words))
    change = (new - old).sum() / words.sum()
    rest = new - old - change * words
    stderr = math.sqrt((rest**2).sum() / 89 / 90) / words.mean()
    assert found.value == pytest.approx(change)
    assert found.stderr == pytest.approx(stderr)


def test_p_values_and_limits_agree():
    values = np.random.default_rng(3).exponential(size=50).tolist()
    found = bootstrap_t(Quotient(values, [1.0] * 50))
    low, high = found.interval(0.95)
    assert found.p_greater(low - 0.01) < 0.05 < found.p_greater(low + 0.01)
    assert found.p_less(high + 0.01) < 0.05 < found.p_less(high - 0.01)


@pytest.mark.parametrize("values", [[0.5] * 40, [0.1 * 3 - 0.05] * 7, [1.0]])
def test_values_that_do_not_vary_are_refused(values):
    with pytest.raises(ValueError, match=r"no document differs|at least 2 documents"):
        bootstrap_t(Quotient(values, [1.0] * len(values)))


@pytest.mark.nightly
def test_skewed_means_fail_less_often_than_by_students_t():
    """Lognormal values exactly at the threshold: t fails in 11%, nominal are 5%."""
    truth, failed, failed_by_t = math.exp(0.5), 0, 0
    for seed in range(400):
        values = np.random.default_rng(seed).lognormal(0, 1, 100)
        found = bootstrap_t(Quotient(values, np.ones(100)))
        failed += found.p_less(truth) <= 0.05
        failed_by_t += stats.ttest_1samp(values, truth, alternative="less")[1] <= 0.05
    assert failed < 0.9 * failed_by_t
    assert failed / 400 <= 0.1
