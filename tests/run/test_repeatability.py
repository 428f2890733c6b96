"""Thresholds within run-to-run noise: probabilities from scipy's normal
distribution."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from pytest_evals.core.metric import Estimate, Metric
from pytest_evals.run.repeatability import measure_repeatability, repeatability


def mean_of(name, **facts):
    return Metric(name=name, aggregate=lambda v: Estimate(0.0), is_mean=True, **facts)


def test_bars_lie_two_and_three_deviations_below_and_know_their_risk():
    right = dict.fromkeys(range(900), 1.0) | dict.fromkeys(range(900, 1000), 0.0)
    other = right | dict.fromkeys(range(20), 0.0) | dict.fromkeys(range(900, 920), 1.0)
    found = measure_repeatability("arc", "acc,none", [right, other])
    assert (found.n, found.n_runs, found.mean) == (1000, 2, 0.9)
    assert found.flip_rate == pytest.approx(0.04)
    stderr = (0.04 / 2000) ** 0.5
    assert found.stderr == pytest.approx(stderr)
    assert found.sampling == pytest.approx((0.09 / 1000) ** 0.5)
    # the mean of two runs varies too: 2 and 3 times sd * sqrt(1 + 1/2) below it
    assert [*found.thresholds] == [0.889, 0.883]
    sd = stderr * 1.5**0.5
    assert found.thresholds[0.889] == pytest.approx(norm.cdf((0.889 - 0.9) / sd))


def test_no_threshold_is_proposed_if_no_answer_has_flipped():
    found = measure_repeatability("arc", "acc", [{0: 1, 1: 0}, {0: 1, 1: 0}])
    assert (found.flip_rate, found.stderr, found.thresholds) == (0, 0, {})


def test_documents_without_a_value_in_each_run_are_left_out():
    found = measure_repeatability("arc", "acc", [{0: 1, 1: 0, 2: 1}, {1: 1, 2: 1}])
    assert (found.n, found.flip_rate) == (2, 0.5)


@pytest.mark.parametrize("runs", [[{0: 0.5}, {0: 1}], [{0: 1}, {1: 1}], [{}, {}]])
def test_an_unsupported_metric_has_no_repeatability(runs):
    assert measure_repeatability("arc", "f1", runs) is None


def test_means_of_other_numbers_vary_between_runs_too():
    """Two runs: a document's change has twice the variance of its value, so the mean
    square of changes over 2n is the variance of a run's mean."""
    rng = np.random.default_rng(0)
    base = rng.uniform(0.2, 0.8, 400)
    runs = [base + rng.normal(0, 0.05, 400) for _ in range(3)]
    tables = [dict(enumerate(run.tolist())) for run in runs]
    found = measure_repeatability("qa", "rouge,none", tables, mean_of("rouge"))
    pairs = [(a - b) ** 2 for a, b in [(0, 1), (0, 2), (1, 2)] for a, b in
             [(runs[a], runs[b])]]  # fmt: skip
    assert found.flip_rate == pytest.approx(np.mean(pairs))
    assert found.stderr == pytest.approx((np.mean(pairs) / 800) ** 0.5)
    middle = np.mean(runs, axis=0)
    assert found.sampling == pytest.approx(middle.std(ddof=1) / 20)
    assert not found.is_share
    low = found.mean - 2 * found.stderr * (4 / 3) ** 0.5
    assert low - 0.001 < next(iter(found.thresholds)) <= low


def test_limits_are_above_the_mean_if_lower_is_better():
    runs = [{i: 40.0 + i % 3 for i in range(90)}, {i: 40.5 + i % 4 for i in range(90)}]
    found = measure_repeatability(
        "mt", "edits", runs, mean_of("edits", higher_is_better=False)
    )
    sd = found.stderr * 1.5**0.5
    for (bar, chance), k in zip(found.thresholds.items(), (2, 3), strict=True):
        assert found.mean + k * sd <= bar < found.mean + (k + 0.1) * sd
        assert chance == pytest.approx(norm.sf((bar - found.mean) / sd))


def test_a_limit_that_no_run_can_miss_is_omitted():
    runs = [dict.fromkeys(range(9), 0) | {9: i} for i in (0, 1)]
    found = measure_repeatability("quiz", "acc,none", runs)
    assert min(found.thresholds) < 0
    assert not any("threshold" in line for line in found.lines())


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), None, "x", (1, 2)])
def test_a_number_that_is_not_finite_has_no_repeatability(bad):
    runs = [{0: 0.5, 1: 0.25}, {0: bad, 1: 0.5}]
    assert measure_repeatability("qa", "rouge", runs, mean_of("rouge")) is None


def test_a_statistic_other_than_the_mean_has_no_repeatability():
    median = Metric(name="median", aggregate=lambda values: Estimate(0.0))
    assert measure_repeatability("qa", "median", [{0: 1, 1: 0}] * 2, median) is None


@given(
    st.integers(2, 5).flatmap(
        lambda k: st.lists(
            st.lists(st.integers(0, 1), min_size=7, max_size=7), min_size=k, max_size=k
        )
    )
)
def test_the_flip_rate_is_the_proportion_of_flips_over_all_pairs_of_runs(values):
    pairs = [
        sum(a != b for a, b in zip(one, other, strict=True)) / 7
        for one, other in combinations(values, 2)
    ]
    assert repeatability(values).rate == pytest.approx(np.mean(pairs))


def test_standard_deviation_of_a_run_is_estimated_from_two_runs():
    """Simulated: 1,319 documents, a few of which are random."""
    rng = np.random.default_rng(0)
    chances = np.repeat([0.0, 0.5, 1.0], [150, 60, 1109])
    means = (rng.random((400, 1319)) < chances).mean(axis=1)
    two = repeatability((rng.random((2, 1319)) < chances).astype(float).tolist())
    assert two.stderr == pytest.approx(means.std(), rel=0.25)
    assert two.rate == pytest.approx(0.5 * 60 / 1319, rel=0.5)


def test_equal_runs_have_no_variance():
    assert repeatability([[1, 0, 1], [1, 0, 1]]) == pytest.approx((2 / 3, 0, 0, 0))
