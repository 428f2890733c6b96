"""Shared n-grams, compared with Python's Counter."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_evals.scorers import ngrams
from pytest_evals.scorers.ngrams import Sequences, shared_ngrams

ITEMS = st.lists(st.sampled_from([0, 1, 2, 3, 0x1F60A]), max_size=9)


def sequences(listed):
    items = [item for one in listed for item in one]
    lengths = [len(one) for one in listed]
    return Sequences(np.array(items, np.int64), np.array(lengths, np.int64))


def by_counters(left, right, orders):
    found = []
    for n in range(1, orders + 1):
        ours, theirs = (
            Counter(tuple(one[i : i + n]) for i in range(len(one) - n + 1))
            for one in (left, right)
        )
        both = ours & theirs
        found.append([ours.total(), theirs.total(), both.total()])
    return found


@given(pairs=st.lists(st.tuples(ITEMS, ITEMS), min_size=1, max_size=9))
def test_counts_are_those_of_counters(pairs):
    left, right = zip(*pairs, strict=True)
    counts = shared_ngrams(sequences(left), sequences(right), 6)
    assert counts.tolist() == [by_counters(*pair, 6) for pair in pairs]


@pytest.mark.parametrize("largest", [2**62, 10**6])
def test_many_pairs_with_many_items_are_counted_in_batches(largest, monkeypatch):
    """This holds if keys exceed 64-bit integers and are ranked again."""
    monkeypatch.setattr(ngrams, "_LARGEST", largest)
    rng = np.random.default_rng(5)
    sides = [
        [rng.integers(0, 4000, rng.integers(0, 12)) // 3 for _ in range(1200)]
        for _ in range(2)
    ]
    sides[1] = [
        one if i % 3 else other
        for i, (one, other) in enumerate(zip(*sides, strict=True))
    ]
    left, right = ([one.tolist() for one in side] for side in sides)
    counts = shared_ngrams(sequences(left), sequences(right), 6)
    expected = [by_counters(*pair, 6) for pair in zip(left, right, strict=True)]
    assert counts.tolist() == expected
