"""Averages of averages."""

from __future__ import annotations

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_evals.scorers.groups import mean_of_means, plain_stderr, pooled_stderr

SAMPLES = st.lists(
    st.lists(st.integers(0, 1), min_size=2, max_size=30), min_size=1, max_size=6
)


@given(SAMPLES)
def test_weighted_mean_of_means_is_the_mean_of_all(samples):
    means = [statistics.fmean(sample) for sample in samples]
    everything = [value for sample in samples for value in sample]
    found = mean_of_means(means, [len(sample) for sample in samples])
    assert found == pytest.approx(statistics.fmean(everything))


@given(SAMPLES)
def test_pooled_error_is_that_of_the_pooled_variance(samples):
    """Against the definition: squared deviations from each sample's own mean."""
    stderrs = [statistics.stdev(sample) / math.sqrt(len(sample)) for sample in samples]
    sizes = [len(sample) for sample in samples]
    squares = sum(
        (value - statistics.fmean(sample)) ** 2
        for sample in samples
        for value in sample
    )
    n = sum(sizes)
    expected = math.sqrt(squares / (n - len(samples)) / n)
    assert pooled_stderr(stderrs, sizes) == pytest.approx(expected)


def test_tasks_of_one_document_have_no_pooled_error():
    assert pooled_stderr([0.0, 0.0], [1, 1]) is None


def test_errors_of_equal_tasks_are_the_same_pooled_and_plain():
    """lm_eval.md, B.5: 0.16366 and 0.18898 over 8 documents each give 0.125."""
    stderrs = [0.163663417676994, 0.188982236504614]
    assert plain_stderr(stderrs) == pytest.approx(0.125)
    assert pooled_stderr(stderrs, [8, 8]) == pytest.approx(0.125)
