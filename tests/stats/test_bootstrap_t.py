"""The studentized bootstrap: compared with resampling by hand, and its error rate."""

import math

import numpy as np
import pytest
from scipy import stats

from pytest_evals.stats.bootstrap_t import Quotient, bootstrap_t


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


@pytest.mark.slow
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
