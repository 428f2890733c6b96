"""Gates that take sampling error into account. Expected limits come from scipy,
probabilities from summing over all outcomes of other documents."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pytest_evals import judge_gate
from pytest_evals.core.gate import Outcome
from pytest_evals.core.metric import Estimate, MetricResult
from pytest_evals.core.result import TaskResult
from pytest_evals.errors import Place
from pytest_evals.gates.judge import judge
from pytest_evals.gates.plan import forecast
from pytest_evals.gates.read.entry import read_gate

PASSED, FAILED, OPEN = Outcome.PASSED, Outcome.FAILED, Outcome.INCONCLUSIVE
HERE = Place(Path("arc.yaml"), 1)


def counted(right, n, **counts):
    """The mean of this many correct answers."""
    return MetricResult(
        name="acc",
        filter="none",
        estimate=Estimate(right / n, None),
        n_scored=n,
        total=right,
        **counts,
    )


def measured(value, stderr=None, n=200, method=""):
    """A number that is not a count of answers."""
    estimate = Estimate(value, stderr, method)
    return MetricResult(name="f1", filter="none", estimate=estimate, n_scored=n)


def verdict(metric, *, policy="warn", **keys):
    gate = read_gate({"metric": metric.name, **keys}, task="arc", source=HERE)
    n = metric.n_scored + metric.n_errored
    found = TaskResult(
        task=SimpleNamespace(name="arc"),
        records=(),
        metrics=(metric,),
        n_selected=n,
        n_total=n,
    )
    return judge(gate, found, policy)


@pytest.mark.parametrize(
    ("right", "outcome"), [(255, PASSED), (235, OPEN), (225, OPEN), (195, FAILED)]
)
def test_proportion_of_correct_answers_over_other_documents(right, outcome):
    """Clopper-Pearson limits, as scipy computes them at twice the tail."""
    found = verdict(counted(right, 300), min=0.75, over="population")
    known = stats.binomtest(right, 300).proportion_ci(0.9, "exact")
    assert found.outcome is outcome
    assert found.interval.low == pytest.approx(known.low)
    assert found.interval.high == pytest.approx(known.high)
    assert (known.low >= 0.75) == (outcome is PASSED)
    assert (known.high < 0.75) == (outcome is FAILED)


@given(st.integers(0, 200), st.integers(1, 199), st.sampled_from([0.9, 0.95, 0.99]))
def test_bound_from_above_mirrors_the_bound_from_below(right, percent, confidence):
    """At most x wrong means at least 1 - x correct."""
    bar = percent / 200
    keys = {"over": "population", "confidence": confidence}
    below = verdict(counted(right, 200), min=round(bar, 6), **keys)
    above = verdict(counted(200 - right, 200), max=round(1 - bar, 6), **keys)
    assert below.outcome is above.outcome


@pytest.mark.slow
def test_an_unchanged_model_at_the_threshold_rarely_fails():
    """The probability that a model with 75% fails ``min: 75%`` on 200 other documents,
    by the binomial distribution over all outcomes."""
    red = sum(
        stats.binom.pmf(right, 200, 0.75)
        for right in range(201)
        if verdict(counted(right, 200), min=0.75, over="population").outcome is FAILED
    )
    assert 0.02 < red <= 0.05


def test_mean_of_other_numbers_has_students_bounds():
    metric = measured(0.62, 0.02, 50, "analytic")
    found = verdict(metric, min=0.6, over="population")
    reach = stats.t.ppf(0.95, 49) * 0.02
    assert found.outcome is OPEN
    assert found.interval.low == pytest.approx(0.62 - reach)
    assert found.interval.high == pytest.approx(0.62 + reach)


def test_bootstrapped_number_has_normal_bounds():
    metric = measured(20.0, 0.5, 400, "bootstrap")
    found = verdict(metric, max=22, over="population")
    assert found.outcome is PASSED
    assert found.interval.high == pytest.approx(20 + stats.norm.ppf(0.95) * 0.5)


@pytest.mark.parametrize("stderr", [None, 0.0, float("nan")])
def test_number_without_standard_error_cannot_be_judged(stderr):
    found = verdict(measured(0.7, stderr), min=0.6, over="population")
    assert found.outcome is Outcome.INVALID
    assert found.reason == "f1,none has no standard error"


def test_another_run_is_judged_by_the_flip_rate():
    """The variance of a mean of N answers, of which a share s flips between two runs,
    is s / 2N: each answer differs from its own mean half as often as from another run.
    """
    found = verdict(counted(870, 1000), min=0.86, noise=0.035)
    reach = stats.norm.ppf(0.95) * (0.035 / 2000) ** 0.5
    assert found.interval.low == pytest.approx(0.87 - reach)
    assert found.outcome is PASSED
    # the sampling error of other documents is much larger
    assert verdict(counted(870, 1000), min=0.86, over="population").outcome is OPEN


def test_bitwise_reproducible_run_is_this_runs_number():
    assert verdict(counted(75, 100), min=0.75, noise=0).outcome is PASSED
    assert verdict(counted(74, 100), min=0.75, noise=0).outcome is FAILED


def test_without_a_flip_rate_the_number_is_compared_with_a_note():
    found = verdict(counted(75, 100), min=0.75, over="benchmark")
    assert found.outcome is PASSED
    assert "the noise between runs is unknown" in found.reason


def test_flip_rates_are_only_defined_for_correct_answers():
    found = verdict(measured(0.7, 0.1), min=0.6, noise=0.1)
    assert found.outcome is Outcome.INVALID


@pytest.mark.parametrize(
    ("n_errored", "outcome"), [(0, PASSED), (2, PASSED), (60, Outcome.INVALID)]
)
def test_errors_matter_if_they_could_reverse_the_verdict(n_errored, outcome):
    metric = counted(280, 300, n_errored=n_errored)
    found = verdict(metric, min=0.85, over="population")
    assert found.outcome is outcome


def test_errors_of_a_mean_that_counts_no_answers_are_invalid():
    metric = replace(measured(0.9, 0.01, n=100), n_errored=1)
    found = verdict(metric, min=0.5, over="population")
    assert found.outcome is Outcome.INVALID


def test_two_bounds_pass_only_when_both_are_kept_for_sure():
    keys = {"over": "population", "min": 0.4, "max": 0.6}
    assert verdict(counted(500, 1000), **keys).outcome is PASSED
    assert verdict(counted(590, 1000), **keys).outcome is OPEN
    assert verdict(counted(700, 1000), **keys).outcome is FAILED
    assert "is not <= 0.6" in verdict(counted(700, 1000), **keys).reason


@pytest.mark.parametrize(
    ("own", "session", "red"),
    [
        ("", "warn", False),
        ("", "fail", True),
        ("", "pass", False),
        ("fail", "pass", True),
        ("pass", "fail", False),
    ],
)
def test_policy_decides_the_effect_of_an_inconclusive_verdict(own, session, red):
    keys = {"inconclusive": own} if own else {}
    metric = counted(225, 300)
    found = verdict(metric, min=0.74, over="population", policy=session, **keys)
    assert found.outcome is OPEN
    assert found.is_red is red


def test_message_has_value_limits_threshold_and_the_documents_of_the_plan():
    """As many documents as the plan states for the same value, decided in 80% of runs
    by the exact limit."""
    keys = {"metric": "acc", "min": 0.72, "over": "population"}
    gate = read_gate(keys, task="arc", source=Place(Path("x"), 1))
    n = forecast(gate, 300, 0.75).n_needed
    reason = verdict(counted(225, 300), min=0.72, over="population").reason
    low, high = stats.binomtest(225, 300).proportion_ci(0.9, "exact")
    least = stats.binom.isf(0.05, n, 0.72) + 1  # P(X >= least | 0.72) <= 5%
    assert stats.binom.sf(least - 1, n, 0.75) == pytest.approx(0.8, abs=0.01)
    assert reason == (
        f"0.750, 90% CI [{low:.3f}, {high:.3f}] contains 0.72 (225 of 300); about "
        f"{n:,} documents would decide it in 80% of runs if the value stays the same"
    )


def test_a_value_at_the_threshold_is_decided_by_no_number_of_documents():
    reason = verdict(counted(225, 300), min=0.75, over="population").reason
    assert reason.endswith("; no number of documents decides a value at the threshold")


def test_documents_that_would_not_decide_an_unknown_range_are_counted():
    # Scores from 0 to 30 need log(20) * 30 / 0.01, about 9,000 documents.
    gate = {"max": 0.01, "over": "population"}
    reason = judge_gate(gate, [0.0] * 8, range=None).reason
    assert reason.endswith(
        "; 100 times as many documents would not decide it if the value stays the same"
    )


def test_two_bounds_that_break_at_either_end_decide_nothing_between():
    """Of 100 documents 45 of 55 are correct, and 45 have no score. With all of these
    wrong 0.45 is certainly below 0.55, with all correct 0.90 is above 0.8: both
    extremes fail, each by another limit, and 67 of 100 would fail by neither."""
    found = verdict(counted(45, 55, n_errored=45), min=0.55, max=0.8, over="population")
    assert found.outcome is Outcome.INVALID
    whole = verdict(counted(67, 100), min=0.55, max=0.8, over="population")
    assert whole.outcome is PASSED
    far = verdict(counted(3, 55, n_errored=5), min=0.55, max=0.8, over="population")
    assert far.outcome is FAILED


def test_two_bounds_hold_wherever_the_documents_without_a_score_fall():
    bounds = {"min": 0.5, "max": 0.8, "over": "population"}
    assert verdict(counted(650, 1000, n_errored=2), **bounds).outcome is PASSED
    edge = verdict(counted(495, 1000, n_errored=2), **bounds)
    assert edge.outcome is OPEN


@pytest.mark.parametrize(("right", "n"), [(2, 9), (0, 3)])
def test_documents_that_would_settle_it_where_all_are_alike(right, n):
    """The first number of documents whose exact limit by scipy, with all correct or
    none, meets 0.7 or misses it; never fewer than were run."""
    found = verdict(counted(right, 2), min=0.7, over="population")
    assert f"about {n} documents would decide it" in found.reason

    def settles(k):
        known = stats.binomtest(k if right else 0, k).proportion_ci(0.9, "exact")
        return known.low >= 0.7 if right else known.high < 0.7

    assert settles(n) and not settles(n - 1)
