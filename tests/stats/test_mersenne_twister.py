"""Compiled loops draw the same values as Python's generator, and count them
correctly."""

import math
import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_evals.stats import bootstrap, mersenne_twister, resampling

SEEDS = st.integers(0, 2**32 - 1)
SIZES = st.integers(1, 40)


def resamples(seed, n, size):
    generator = random.Random(seed)
    return [generator.choices(range(n), k=n) for _ in range(size)]


@given(seed=SEEDS, n=st.integers(1, 700), size=SIZES)
@settings(max_examples=60)
def test_sums_are_those_of_pythons_choices(seed, n, size):
    columns = [[3.0 * i for i in range(n)], [math.sin(i) for i in range(n)]]
    table = np.array(columns)
    found = mersenne_twister.sums(mersenne_twister.key_of(seed), table, size)
    for drawn, row in zip(resamples(seed, n, size), found, strict=True):
        expected = [math.fsum(column[i] for i in drawn) for column in columns]
        assert row[0] == expected[0]  # whole numbers are exact
        assert row[1] == pytest.approx(expected[1], rel=1e-12, abs=1e-9)


@given(seed=SEEDS, n=st.integers(1, 700), size=SIZES, n_kinds=st.integers(1, 9))
@settings(max_examples=60)
def test_counts_are_those_of_pythons_choices(seed, n, size, n_kinds):
    kinds = np.arange(n, dtype=np.int32) % n_kinds
    found = mersenne_twister.counts(mersenne_twister.key_of(seed), kinds, n_kinds, size)
    for drawn, row in zip(resamples(seed, n, size), found, strict=True):
        seen = Counter(i % n_kinds for i in drawn)
        assert row.tolist() == [seen[kind] for kind in range(n_kinds)]


@given(seed=SEEDS, n=st.integers(1, 700), size=SIZES, data=st.data())
@settings(max_examples=60)
def test_middles_are_those_of_pythons_choices(seed, n, size, data):
    ranks = [*range(n)]
    random.Random(seed).shuffle(ranks)
    middle = data.draw(st.integers(0, n - 1))
    of = np.array(ranks, dtype=np.int32)
    found = mersenne_twister.middles(mersenne_twister.key_of(seed), of, middle, size)
    for drawn, rank in zip(resamples(seed, n, size), found, strict=True):
        assert rank == sorted(ranks[i] for i in drawn)[middle]


PAIRS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2)
VALUES = st.lists(st.floats(-50, 50), min_size=2, max_size=400)
HOLES = st.lists(
    st.one_of(st.floats(-50, 50), st.just(math.nan)), min_size=2, max_size=400
)
STATISTICS = {
    "mean": (VALUES, resampling.resampled_mean),
    "perplexity": (VALUES, resampling.resampled_perplexity),
    "median": (VALUES, resampling.resampled_median),
    "nanmean": (HOLES, resampling.resampled_nanmean),
    "f1": (PAIRS, lambda pairs: resampling.resampled_f1(*zip(*pairs, strict=True))),
    "mcc": (
        PAIRS,
        lambda pairs: resampling.resampled_matthews(*zip(*pairs, strict=True)),
    ),
    "score": (
        VALUES,
        lambda values: resampling.resampled_scores(
            [values, [1.0] * len(values)], lambda sums: sums[0] / sums[1]
        ),
    ),
}


@pytest.mark.parametrize("name", STATISTICS)
@given(seed=SEEDS, data=st.data())
@settings(max_examples=30)
def test_each_statistic_is_the_same_in_compiled_loops(name, seed, data):
    inputs, make = STATISTICS[name]
    values = data.draw(inputs)
    statistic = make(values)
    with np.errstate(all="ignore"):
        blocks = bootstrap.draws(seed, len(values), 20)
        by_numpy = np.concatenate([statistic(at) for at in blocks])
        compiled = statistic.drawn(seed, 20)
    assert compiled == pytest.approx(by_numpy, rel=1e-9, abs=1e-9, nan_ok=True)
