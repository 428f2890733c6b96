"""The mean of human ratings, from few labels and many ratings of a judge."""

import numpy as np
import pytest
from statsmodels.stats.proportion import proportion_confint

from pytest_evals.stats.prediction_powered import (
    mean_of_population,
    mean_of_run,
    tuned_weight,
)

MEANS = [mean_of_run, mean_of_population]


def ratings(n: int, n_others: int, accuracy: float = 0.9, rate: float = 0.8):
    """Human labels, the judge's ratings of the same documents, and of others."""
    rng = np.random.default_rng(7)
    truth = (rng.random(n + n_others) < rate).astype(float)
    right = rng.random(n + n_others) < accuracy
    judged = np.where(right, truth, 1 - truth)
    return truth[:n].tolist(), judged[:n].tolist(), judged[n:].tolist()


@pytest.mark.parametrize("mean", MEANS)
def test_the_estimate_is_that_of_ppi_plus_plus(mean):
    """The formula of arXiv 2311.01453, which splits the documents into those with and
    without a label."""
    human, judge, others = ratings(40, 300)
    y, f, g = map(np.array, (human, judge, others))
    ratio = len(y) / len(g)
    tuned = np.cov(y, f)[0, 1] / ((1 + ratio) * np.concatenate([f, g]).var(ddof=1))
    expected = tuned * g.mean() + (y - tuned * f).mean()
    assert mean(human, judge, others).value == pytest.approx(expected)


@pytest.mark.parametrize("mean", MEANS)
def test_a_useless_judge_leaves_the_exact_limits_of_the_labels(mean):
    human = [1.0] * 47 + [0.0] * 3
    found = mean(human, [1.0] * 50, [1.0] * 400).interval(0.95)
    exact = proportion_confint(47, 50, alpha=0.1, method="beta")
    assert found.low == pytest.approx(exact[0], abs=1e-6)
    # of 450 documents, 47 are known to be good and 3 not to be
    assert found.high == pytest.approx(min(exact[1], 447 / 450), abs=1e-6)


@pytest.mark.parametrize("mean", MEANS)
@pytest.mark.parametrize("rate", [0.5, 0.95, 1.0])
def test_labels_that_all_agree_never_give_a_zero_width(mean, rate):
    n_bad = round(40 * (1 - rate))
    human = [0.0] * n_bad + [1.0] * (40 - n_bad)
    others = human * 10
    found = mean(human, human, others)
    low, high = found.interval(0.95)
    # With 40 agreeing labels, 7% of ratings may be wrong (rule of three: 3 / 40).
    assert low <= rate - 0.04 and low < found.value <= high
    assert found.p_greater(rate - 0.01) > 0.05


@pytest.mark.parametrize("mean", MEANS)
def test_limits_and_p_values_agree(mean):
    found = mean(*ratings(35, 500))
    low, high = found.interval(0.95)
    assert found.p_greater(low) == pytest.approx(0.05, abs=1e-5)
    assert found.p_less(high) == pytest.approx(0.05, abs=1e-5)
    assert found.p_greater(low - 0.01) < 0.05 < found.p_greater(low + 0.01)
    assert found.p_less(high + 0.01) < 0.05 < found.p_less(high - 0.01)


@pytest.mark.parametrize("mean", MEANS)
def test_a_good_judge_is_worth_labels_and_more_labels_narrow_the_interval(mean):
    def width(accuracy: float, n: int) -> float:
        low, high = mean(*ratings(n, 600, accuracy, 0.7)).interval(0.95)
        return high - low

    assert width(0.95, 60) < 0.8 * width(0.5, 60)
    assert width(0.95, 120) < width(0.95, 60)


def test_with_a_label_for_each_document_the_mean_of_the_run_is_known():
    found = mean_of_run([1.0] * 27 + [0.0] * 3, [1.0] * 30, [])
    assert found.interval(0.95) == pytest.approx((0.9, 0.9))
    assert found.p_greater(0.89) == 0
    assert found.p_greater(0.9) == 1


def test_limits_of_a_run_are_the_values_that_the_labels_allow():
    low, high = mean_of_run([1.0] * 36, [1.0] * 36, [1.0] * 4).interval(0.95)
    assert (low, high) == pytest.approx((max(0.9, 0.05 ** (1 / 36)), 1.0))


def test_a_judge_that_contradicts_people_gets_no_weight():
    human = [1.0, 0.0] * 20
    assert tuned_weight(human, [1 - y for y in human], [0.0, 1.0]) == 0


def test_clusters_never_narrow_the_limits():
    human, judge, others = ratings(60, 300)
    alone = mean_of_population(human, judge, others).interval(0.95)
    labels = [i // 5 for i in range(60)], [100 + i // 5 for i in range(300)]
    found = mean_of_population(human, judge, others, clusters=labels).interval(0.95)
    assert found.low <= alone.low and found.high >= alone.high
