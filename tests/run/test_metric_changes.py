"""Intervals of the changes between two runs: every metric of tasks and groups has one,
or the reason why it is missing."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from pytest_evals.core.metric import Estimate, Metric
from pytest_evals.run.metric_changes import (
    group_estimates,
    metric_changes,
    paired_estimates,
)
from pytest_evals.scorers.metrics import MetricSpec, metric

MONTE_CARLO = 0.1
"""Tolerance of bootstrapped limits, relative to the width of the interval."""


def built_in(name, kind):
    return metric(MetricSpec(name=name), "none", kind, declared=True)


F1 = built_in("f1", "multiple_choice")
PERPLEXITY = built_in("word_perplexity", "loglikelihood_rolling")
BITS = built_in("bits_per_byte", "loglikelihood_rolling")


def of_function(function):
    return metric(
        MetricSpec(name="own", aggregation=function), "none", "generate_until", True
    )


def estimates_of(how, old, new, labels=None):
    """The change of ``x,none`` over documents 0, 1, …"""
    numbers = [{"x,none": how.aggregate(values).value} for values in (old, new)]
    values = [{"x,none": dict(enumerate(each))} for each in (old, new)]
    return (
        numbers,
        paired_estimates(numbers, values, lambda key: [how], lambda at: labels),
    )


def changed(how, old, new, labels=None):
    numbers, found = estimates_of(how, old, new, labels)
    (one,) = metric_changes("task", numbers, {}, found)
    return one


def f1(gold, answer):
    both = np.sum(gold & answer, axis=-1)
    return 2 * both / (np.sum(gold, axis=-1) + np.sum(answer, axis=-1))


def answers(rng, n, accuracy):
    gold = rng.random(n) < 0.4
    return gold, [np.where(rng.random(n) < one, gold, ~gold) for one in accuracy]


@pytest.mark.slow
def test_f1_of_few_documents_has_nearly_the_bca_interval_of_scipy():
    rng = np.random.default_rng(5)
    gold, (old, new) = answers(rng, 120, (0.75, 0.85))
    expected = stats.bootstrap(
        (gold, old, new),
        lambda gold, old, new, axis=-1: f1(gold, new) - f1(gold, old),
        paired=True,
        vectorized=True,
        confidence_level=0.9,
        n_resamples=20_000,
        rng=rng,
    ).confidence_interval
    labels = gold.astype(int).tolist()
    pairs = [
        [*zip(labels, side.astype(int).tolist(), strict=True)] for side in (old, new)
    ]
    one = changed(F1, *pairs)
    near = MONTE_CARLO * (expected.high - expected.low)
    assert (one.low, one.high) == pytest.approx((expected.low, expected.high), abs=near)
    assert (one.method, one.unit, one.no_interval) == (
        "paired delta method",
        "plain",
        "",
    )


@pytest.mark.slow
def test_a_users_function_has_the_percentile_interval_of_numpy():
    rng = np.random.default_rng(6)
    old, new = rng.gamma(2, 3, 150), rng.gamma(2, 3.5, 150)
    at = rng.integers(0, 150, (20_000, 150))
    drawn = new[at].std(axis=1) - old[at].std(axis=1)
    low, high = np.quantile(drawn, [0.05, 0.95])
    one = changed(
        of_function(lambda values: float(np.std(values))), old.tolist(), new.tolist()
    )
    assert (one.low, one.high) == pytest.approx((low, high), abs=0.1 * (high - low))
    assert one.method == "paired bootstrap"


def log_likelihoods(rng, n, factor):
    """Log-probability and number of words of each document."""
    words = rng.integers(5, 60, n)
    each = -words * rng.gamma(9, factor / 9, n)
    return [*zip(each.tolist(), words.tolist(), strict=True)]


def delta(pairs):
    """Influence of each document on minus the log-likelihood per word."""
    logprobs, words = np.array(pairs).T
    value = -logprobs.sum() / words.sum()
    return value, (-logprobs - value * words) / words.mean()


@pytest.mark.parametrize("n_copies", [1, 2])
def test_perplexities_are_compared_as_ratios_by_the_delta_method(n_copies):
    """Copies of a document are one cluster, and add no information."""
    rng = np.random.default_rng(7)
    n = 2500
    old, new = log_likelihoods(rng, n, 3.0), log_likelihoods(rng, n, 3.1)
    (before, slopes), (now, others) = delta(old), delta(new)
    error = np.std(others - slopes, ddof=1) / n**0.5
    reach = stats.t.ppf(0.95, n - 1) * error
    expected = np.expm1([now - before - reach, now - before + reach])
    labels = [*range(n)] * n_copies if n_copies > 1 else None
    one = changed(PERPLEXITY, old * n_copies, new * n_copies, labels)
    assert (one.low, one.high) == pytest.approx(expected, rel=1e-3)
    assert one.unit == "percent"


def test_bits_per_byte_are_compared_as_differences():
    rng = np.random.default_rng(8)
    n = 2500
    old, new = log_likelihoods(rng, n, 3.0), log_likelihoods(rng, n, 3.1)
    (before, slopes), (now, others) = delta(old), delta(new)
    error = np.std(others - slopes, ddof=1) / n**0.5
    reach = stats.t.ppf(0.95, n - 1) * error
    expected = np.array([now - before - reach, now - before + reach]) / np.log(2)
    one = changed(BITS, old, new)
    assert (one.low, one.high) == pytest.approx(expected, rel=1e-3)
    assert one.unit == "plain"


@pytest.mark.parametrize(
    ("how", "old", "new", "why"),
    [
        (F1, [(1, 1)] * 29, [(1, 0)] * 29, "needs 30 documents, not 29"),
        (of_function(max), [1.0] * 40, [1.0] * 40, "no document differs"),
        (
            of_function(lambda values: float(sum(i % 7 for i in range(100_000)))),
            [1.0] * 40,
            [2.0] * 40,
            "too slow to resample; use a gate",
        ),
        (
            of_function(max),
            [1.0] * 40,
            [3.0] * 40,
            "every document changes equally",
        ),
        (
            of_function(lambda values: 1 / values.count(2.0)),
            [1.0, 2.0] * 2 + [1.0] * 40,
            [2.0, 2.0] * 2 + [1.0] * 40,
            "ZeroDivisionError: division by zero",
        ),
    ],
)
def test_a_change_without_interval_has_the_reason(how, old, new, why):
    one = changed(how, old, new)
    assert one.no_interval == why


def changed_values(old, new, methods):
    numbers = ({"x,none": 0.5}, {"x,none": 0.6})
    found = paired_estimates(
        numbers, ({"x,none": old}, {"x,none": new}), lambda _: methods, lambda _: None
    )
    (one,) = metric_changes("task", numbers, {}, found)
    assert (one.before, one.now, one.low, one.high) == (0.5, 0.6, None, None)
    return one.no_interval


MEAN = Metric(name="mean", aggregate=lambda values: Estimate(0.0), is_mean=True)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ({}, {}, "no values per document"),
        ({0: 1, 1: 0}, {0: 1}, "1 scored in one run only"),
        ({0: 1, 1: 1}, {0: 1, 1: 0}, "unknown aggregation"),
    ],
)
def test_values_that_do_not_give_the_numbers_of_both_runs_are_not_used(old, new, why):
    assert changed_values(old, new, [MEAN]) == why


def test_a_number_of_one_run_only_has_no_change():
    found = [*metric_changes("t", ({"a,none": 1.0}, {"b,none": None}), {}, {})]
    assert [one.no_interval for one in found] == [
        "no number in this run",
        "no number in the baseline",
    ]


def group(tasks, sizes, by_size):
    """Two tasks of correct and wrong answers: the change and its interval."""
    rng = np.random.default_rng(9)
    rates = {"a": [[0.7], [0.72]], "b": [[0.5], [0.47]]}
    drawn = {
        task: (rng.random((2, n)) < rates[task]).astype(float)
        for task, n in sizes.items()
    }
    found = {
        task: estimates_of(ACCURACY, *(side.tolist() for side in both))[1]
        for task, both in drawn.items()
    }
    weights = np.array([sizes[task] if by_size else 1 for task in tasks], dtype=float)
    weights /= weights.sum()
    means = np.array([drawn[task].mean(axis=1) for task in tasks])
    numbers = [{"x,none": float(one)} for one in weights @ means]
    (one,) = metric_changes(
        "group", numbers, {}, group_estimates(numbers, tasks, found, sizes)
    )
    moved = {task: both[1] - both[0] for task, both in drawn.items()}
    total = dict.fromkeys(tasks, 0.0)
    for task, weight in zip(tasks, weights, strict=True):
        total[task] += weight
    terms = [(total[t] ** 2 * moved[t].var(ddof=1) / sizes[t], sizes[t]) for t in total]
    variance = sum(term for term, _ in terms)
    df = variance**2 / sum(term**2 / (n - 1) for term, n in terms)
    reach = stats.t.ppf(0.95, df) * variance**0.5
    change = numbers[1]["x,none"] - numbers[0]["x,none"]
    return one, (change - reach, change + reach)


ACCURACY = built_in("acc", "multiple_choice")


@pytest.mark.parametrize("by_size", [True, False])
@pytest.mark.parametrize("tasks", [["a", "b"], ["a", "b", "a"]])
def test_a_group_combines_its_tasks_by_their_weights(tasks, by_size):
    """A task in two subgroups has twice the weight, and is not two samples."""
    one, expected = group(tasks, {"a": 2100, "b": 4000}, by_size)
    width = expected[1] - expected[0]
    assert (one.low, one.high) == pytest.approx(expected, abs=0.02 * width)


def test_a_group_of_perplexities_is_compared_as_the_mean_of_their_differences():
    rng = np.random.default_rng(10)
    sizes, found, terms, numbers = {"a": 2100, "b": 2100}, {}, [], []
    for task, n in sizes.items():
        sides = [log_likelihoods(rng, n, factor) for factor in (3.0, 3.1)]
        each, found[task] = estimates_of(PERPLEXITY, *sides)
        numbers.append([one["x,none"] for one in each])
        (_, slopes), (log, others) = map(delta, sides)
        terms.append((np.exp(log) / 2) ** 2 * np.var(others - slopes, ddof=1) / n)
    before, now = np.mean(numbers, axis=0)
    known = [{"x,none": float(before)}, {"x,none": float(now)}]
    (one,) = metric_changes(
        "group", known, {}, group_estimates(known, ["a", "b"], found, sizes)
    )
    reach = stats.norm.ppf(0.95) * sum(terms) ** 0.5
    expected = (now - before - reach, now - before + reach)
    assert (one.low, one.high) == pytest.approx(expected, rel=0.01)
    assert one.unit == "plain"


def test_a_group_names_the_task_that_has_no_interval():
    _, few = estimates_of(F1, [(1, 1)] * 20, [(1, 0)] * 20)
    numbers = ({"x,none": 1.0}, {"x,none": 0.0})
    found = group_estimates(numbers, ["few"], {"few": few}, {"few": 20})
    assert found == {"x,none": "few: needs 30 documents, not 20"}
