"""Statistics of many resamples equal those computed one by one, and lm-eval's standard
errors.

``lm_eval_aggregations.json`` contains values and standard errors that lm-eval 0.4.13's
own functions returned (``record.py`` wrote it); nothing in it comes from this package.
"""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_evals.scorers import aggregations, agreement
from pytest_evals.scorers import bootstrap as resampling
from pytest_evals.scorers.bootstrap import bootstrap_stderr
from pytest_evals.stats import averages

RECORDED = json.loads((Path(__file__).parent / "lm_eval_aggregations.json").read_text())


def pairs(values):
    golds, predictions = zip(*values, strict=True)
    return list(golds), list(predictions)


def numbers(values):
    return [math.nan if value is None else value for value in values]


STATISTICS = {
    "perplexity": resampling.resampled_perplexity,
    "median": resampling.resampled_median,
    "nanmean": lambda v: resampling.resampled_nanmean(numbers(v)),
    "f1": lambda v: resampling.resampled_f1(*pairs(v)),
    "matthews_corrcoef": lambda v: resampling.resampled_matthews(*pairs(v)),
}
BOOTSTRAPPED = [c for c in RECORDED["cases"] if c["aggregation"] in STATISTICS]


@pytest.mark.slow
@pytest.mark.parametrize("case", BOOTSTRAPPED, ids=lambda c: c["aggregation"])
def test_standard_errors_are_those_of_lm_eval(case):
    values = case["values"]
    statistic = STATISTICS[case["aggregation"]](values)
    stderr = bootstrap_stderr(len(values), statistic, case["iterations"])
    assert stderr == pytest.approx(case["stderr"], rel=1e-9)


def resamples(n):
    """Drawn positions, and their counts."""
    at = np.random.default_rng(1).integers(0, n, (50, n))
    return at, counted(at)


def counted(at):
    return np.array([np.bincount(row, minlength=at.shape[1]) for row in at], float)


def labelled(most):
    return st.lists(
        st.tuples(st.integers(0, most), st.integers(0, most)), min_size=2, max_size=30
    )


@given(values=labelled(3))
@settings(max_examples=40, deadline=None)
def test_counted_statistics_equal_the_plain_ones_on_every_resample(values):
    golds, predictions = pairs(values)
    ones = [g % 2 for g in golds], [p % 2 for p in predictions]
    at, counts = resamples(len(values))
    f1 = resampling.resampled_f1(*ones)(counts)
    mcc = resampling.resampled_matthews(golds, predictions)(counts)
    for row, one, other in zip(at, f1, mcc, strict=True):
        drawn = [[ones[0][i] for i in row], [ones[1][i] for i in row]]
        assert one == pytest.approx(agreement.f1_score(*drawn))
        whole = [golds[i] for i in row], [predictions[i] for i in row]
        assert other == pytest.approx(agreement.matthews_corrcoef(*whole), abs=1e-12)


@given(values=labelled(40))
@settings(max_examples=20, deadline=None)
def test_correlation_of_very_many_labels_equals_the_plain_one(values):
    golds, predictions = pairs(values * 30)
    at, counts = resamples(len(golds))
    mcc = resampling.resampled_matthews(golds, predictions)(counts)
    for row, value in zip(at, mcc, strict=True):
        whole = [golds[i] for i in row], [predictions[i] for i in row]
        assert value == pytest.approx(agreement.matthews_corrcoef(*whole), abs=1e-12)


@given(
    values=st.lists(
        st.one_of(st.just(math.nan), st.floats(-50, 0)), min_size=2, max_size=30
    )
)
@settings(max_examples=40, deadline=None)
def test_resampled_averages_equal_the_plain_ones_on_every_resample(values):
    at, counts = resamples(len(values))
    known = [0.0 if math.isnan(v) else v for v in values]
    nan = resampling.resampled_nanmean(values)(counts)
    median = resampling.resampled_median(known)(counts)
    perplexity = resampling.resampled_perplexity(known)(counts)
    for k, row in enumerate(at):
        expected = aggregations.nanmean([values[i] for i in row])
        assert nan[k] == pytest.approx(expected, nan_ok=True)
        drawn = [known[i] for i in row]
        assert median[k] == aggregations.median(drawn)
        assert perplexity[k] == pytest.approx(math.exp(-averages.mean(drawn)))


def test_one_kind_of_pair_has_no_correlation():
    statistic = resampling.resampled_matthews([1, 1], [1, 1])
    assert statistic(np.array([[1.0, 1.0]])).tolist() == [0.0]


def test_scores_are_a_function_of_the_sums():
    statistic = resampling.resampled_scores([[1, 2], [10, 20]], lambda s: s[0] / s[1])
    assert statistic(np.array([[2.0, 0.0], [1.0, 1.0], [0.0, 2.0]])).tolist() == [
        0.1,
        0.1,
        0.1,
    ]
