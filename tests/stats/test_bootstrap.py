"""The seeded bootstrap draws what Python's own generator draws, and counts it right.

``lm_eval_aggregations.json`` holds values and standard errors that lm-eval 0.4.13's own
functions gave (its ``source`` says how); nothing in it comes from this package.
"""

import json
import math
import random
import statistics
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_evals.stats import agreement, averages, bootstrap

RECORDED = json.loads((Path(__file__).parent / "lm_eval_aggregations.json").read_text())


def pairs(values):
    golds, predictions = zip(*values, strict=True)
    return list(golds), list(predictions)


def numbers(values):
    return [math.nan if value is None else value for value in values]


STATISTICS = {
    "perplexity": lambda v: bootstrap.resampled_perplexity(v),
    "median": lambda v: bootstrap.resampled_median(v),
    "nanmean": lambda v: bootstrap.resampled_nanmean(numbers(v)),
    "f1": lambda v: bootstrap.resampled_f1(*pairs(v)),
    "matthews_corrcoef": lambda v: bootstrap.resampled_matthews(*pairs(v)),
}
BOOTSTRAPPED = [c for c in RECORDED["cases"] if c["aggregation"] in STATISTICS]


@pytest.mark.parametrize("case", BOOTSTRAPPED, ids=lambda c: c["aggregation"])
def test_standard_errors_are_those_of_lm_eval(case):
    values = case["values"]
    statistic = STATISTICS[case["aggregation"]](values)
    stderr = bootstrap.bootstrap_stderr(len(values), statistic, case["iterations"])
    assert stderr == pytest.approx(case["stderr"], rel=1e-9)


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 300), size=st.integers(1, 40))
@settings(max_examples=60, deadline=None)
def test_draws_are_those_of_pythons_choices(seed, n, size):
    generator = random.Random(seed)
    expected = [generator.choices(range(n), k=n) for _ in range(size)]
    got = np.concatenate(list(bootstrap.draws(seed, n, size))).tolist()
    assert got == expected


def test_draws_are_the_same_when_one_resample_is_larger_than_a_block():
    n = bootstrap.BLOCK + 7
    generator = random.Random(3)
    expected = [generator.choices(range(n), k=n) for _ in range(2)]
    assert np.concatenate(list(bootstrap.draws(3, n, 2))).tolist() == expected


LABELS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=30
)


@given(values=LABELS)
@settings(max_examples=40, deadline=None)
def test_counted_statistics_equal_the_plain_ones_on_every_resample(values):
    golds, predictions = pairs(values)
    ones = [g % 2 for g in golds], [p % 2 for p in predictions]
    at = next(bootstrap.draws(1, len(values), 50))
    f1 = bootstrap.resampled_f1(*ones)(at)
    mcc = bootstrap.resampled_matthews(golds, predictions)(at)
    for row, (one, other) in zip(at, zip(f1, mcc, strict=True), strict=True):
        drawn = [[ones[0][i] for i in row], [ones[1][i] for i in row]]
        assert one == pytest.approx(agreement.f1_score(*drawn))
        whole = [golds[i] for i in row], [predictions[i] for i in row]
        assert other == pytest.approx(agreement.matthews_corrcoef(*whole), abs=1e-12)


@given(
    values=st.lists(
        st.one_of(st.just(math.nan), st.floats(-50, 0)), min_size=2, max_size=30
    )
)
@settings(max_examples=40, deadline=None)
def test_resampled_averages_equal_the_plain_ones_on_every_resample(values):
    at = next(bootstrap.draws(1, len(values), 50))
    known = [0.0 if math.isnan(v) else v for v in values]
    nan = bootstrap.resampled_nanmean(values)(at)
    median = bootstrap.resampled_median(known)(at)
    perplexity = bootstrap.resampled_perplexity(known)(at)
    for k, row in enumerate(at):
        expected = averages.nanmean([values[i] for i in row])
        assert nan[k] == pytest.approx(expected, nan_ok=True)
        drawn = [known[i] for i in row]
        assert median[k] == averages.median(drawn)
        assert perplexity[k] == pytest.approx(math.exp(-averages.mean(drawn)))


def test_the_error_is_the_same_with_threads_as_without(monkeypatch):
    values = [random.Random(5).random() for _ in range(400)]
    statistic = bootstrap.resampled_mean(values)
    threaded = bootstrap.bootstrap_stderr(400, statistic, 8000)
    monkeypatch.setattr(bootstrap.os, "cpu_count", lambda: 1)
    assert bootstrap.bootstrap_stderr(400, statistic, 8000) == threaded


def test_only_whole_chunks_of_a_thousand_are_run():
    values = [1.0, 4.0, 9.0, 16.0]
    statistic = bootstrap.resampled_mean(values)
    replicates = []
    for seed in range(2):
        generator = random.Random(seed)
        replicates += [
            statistics.fmean(generator.choices(values, k=4)) for _ in range(1000)
        ]
    expected = statistics.stdev(replicates)
    assert bootstrap.bootstrap_stderr(4, statistic, 2999) == pytest.approx(expected)


@pytest.mark.parametrize(("n", "iterations"), [(1, 1000), (5, 1), (5, 0), (5, -3)])
def test_there_is_no_error_of_one_value_or_one_replicate(n, iterations):
    statistic = bootstrap.resampled_mean([1.0] * n)
    assert bootstrap.bootstrap_stderr(n, statistic, iterations) is None


def test_a_replicate_that_overflows_gives_nan_and_no_warning():
    statistic = bootstrap.resampled_perplexity([-2000.0, -1.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stderr = bootstrap.bootstrap_stderr(2, statistic, 1000)
    assert math.isnan(stderr)
