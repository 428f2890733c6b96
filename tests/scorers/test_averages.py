"""Averages compared with lm-eval's recorded values and Python's statistics."""

import json
import math
import statistics
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_evals.scorers.aggregations import AGGREGATIONS, median, nanmean
from pytest_evals.stats.averages import mean, mean_stderr

RECORDED = json.loads((Path(__file__).parent / "lm_eval_aggregations.json").read_text())


def cases(name):
    return [c for c in RECORDED["cases"] if c["aggregation"] == name]


def test_mean_and_its_error_are_those_of_lm_eval():
    for case in cases("mean"):
        assert mean(case["values"]) == pytest.approx(case["value"], rel=1e-14)
        assert mean_stderr(case["values"]) == pytest.approx(case["stderr"], rel=1e-13)


def test_median_takes_the_upper_of_two_middle_values():
    assert median([4, 1, 3, 2]) == 3
    for case in cases("median"):
        assert median(case["values"]) == case["value"]


def test_nanmean_omits_nan():
    for case in cases("nanmean"):
        values = [math.nan if v is None else v for v in case["values"]]
        assert nanmean(values) == pytest.approx(case["value"], rel=1e-13)
    assert math.isnan(nanmean([math.nan, math.nan]))


def test_weighted_perplexity_divides_totals():
    """The totals are already sums over their weights: 6 nats in 3 words is 2."""
    pairs = ([-6.0, -2.0], [3, 1])
    value = AGGREGATIONS["weighted_perplexity"].value
    assert value(pairs) == pytest.approx(math.exp(2))
    with pytest.raises(ZeroDivisionError):
        value(([1.0], [0]))


@given(st.lists(st.floats(-100, 100), min_size=2, max_size=50))
def test_mean_stderr_is_the_sample_deviation_over_root_n(values):
    expected = statistics.stdev(values) / math.sqrt(len(values))
    assert mean_stderr(values) == pytest.approx(expected, rel=1e-6, abs=1e-9)


def test_one_value_has_no_error():
    assert mean_stderr([1.0]) is None
