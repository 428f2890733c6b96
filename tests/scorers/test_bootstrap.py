"""The seeded bootstrap draws what Python's own generator draws."""

import math
import random
import statistics
import warnings
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_evals.scorers import bootstrap


def resampled_mean(values):
    """The mean as a resampled statistic."""
    return bootstrap.resampled_scores([values], lambda sums: sums[0] / len(values))


def resamples(seed, n, size, n_kinds, **how):
    kinds = np.arange(n) % n_kinds
    blocks = bootstrap.resamples(seed, kinds, n_kinds, size, **how)
    return np.concatenate([block.copy() for block in blocks]).tolist()


def by_python(seed, n, size, n_kinds):
    generator, values = random.Random(seed), [i % n_kinds for i in range(n)]
    drawn = [Counter(generator.choices(values, k=n)) for _ in range(size)]
    return [[one[i] for i in range(n_kinds)] for one in drawn]


@pytest.mark.slow
@pytest.mark.parametrize("compiled", [False, True])
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 700),
    size=st.integers(1, 40),
    share=st.floats(0.01, 1),
)
@settings(max_examples=60, deadline=None)
def test_resamples_are_those_of_pythons_choices(compiled, seed, n, size, share):
    """Counted for each value, or for the kinds of values that contribute alike."""
    given_ = seed, n, size, max(1, int(n * share))
    assert resamples(*given_, compiled=compiled) == by_python(*given_)


@pytest.mark.slow
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("n_kinds", [3, bootstrap.BLOCK + 7])
def test_a_resample_may_be_larger_than_a_block(compiled, n_kinds):
    given_ = 3, bootstrap.BLOCK + 7, 2, n_kinds
    assert resamples(*given_, compiled=compiled) == by_python(*given_)


@pytest.mark.parametrize("values", [[0, 1, 1, 2], [0.5, math.nan, 0.5, 1.0]])
def test_a_statistic_of_kinds_is_that_of_the_values(values):
    """Gates pass counts of values, standard errors those of kinds."""
    counts = np.array([[1.0, 1, 1, 1], [0, 0, 2, 2], [3, 0, 1, 0]])
    for row, found in zip(
        counts, bootstrap.resampled_nanmean(values)(counts), strict=True
    ):
        drawn = np.repeat(values, row.astype(int))
        assert found == pytest.approx(np.nanmean(drawn))


@pytest.mark.parametrize(
    "statistic",
    [resampled_mean, bootstrap.resampled_median],
    ids=["mean", "median"],
)
def test_compiled_loops_count_where_there_are_many_draws_and_change_nothing(
    statistic, monkeypatch
):
    values = [random.Random(i).random() for i in range(400)]
    resampled = statistic(values)
    by_numpy = bootstrap.bootstrap_stderr(400, resampled, 8000)
    monkeypatch.setattr(bootstrap, "COMPILED", 1)
    compiled = bootstrap.bootstrap_stderr(400, resampled, 8000)
    assert compiled == pytest.approx(by_numpy, rel=1e-12)
    monkeypatch.setattr(bootstrap, "find_spec", lambda name: None)
    assert bootstrap.bootstrap_stderr(400, resampled, 8000) == by_numpy


def test_the_error_is_the_same_with_threads_as_without(monkeypatch):
    values = [random.Random(5).random() for _ in range(400)]
    statistic = resampled_mean(values)
    threaded = bootstrap.bootstrap_stderr(400, statistic, 8000)
    monkeypatch.setattr(bootstrap.os, "cpu_count", lambda: 1)
    assert bootstrap.bootstrap_stderr(400, statistic, 8000) == threaded


def test_only_whole_chunks_of_a_thousand_are_run():
    values = [1.0, 4.0, 9.0, 16.0]
    statistic = resampled_mean(values)
    replicates = []
    for seed in range(2):
        generator = random.Random(seed)
        replicates += [
            statistics.fmean(generator.choices(values, k=4)) for _ in range(1000)
        ]
    expected = statistics.stdev(replicates)
    assert bootstrap.bootstrap_stderr(4, statistic, 2999) == pytest.approx(expected)


@pytest.mark.parametrize(("n", "iterations"), [(1, 1000), (5, 1), (5, 0), (5, -3)])
def test_one_value_or_one_replicate_has_no_standard_error(n, iterations):
    statistic = resampled_mean([1.0] * n)
    assert bootstrap.bootstrap_stderr(n, statistic, iterations) is None


def test_a_replicate_that_overflows_gives_nan_and_no_warning():
    statistic = bootstrap.resampled_perplexity([-2000.0, -1.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stderr = bootstrap.bootstrap_stderr(2, statistic, 1000)
    assert math.isnan(stderr)
