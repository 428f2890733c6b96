"""Ranks of models over resampled documents, against all possible resamples."""

from itertools import product

import pytest

from pytest_evals.stats.ranks import rank_estimates

VALUES = ((1, 1, 0, 1, 0), (1, 0, 1, 0, 0), (0, 0, 0, 1, 1))


def exact_firsts(values, blocks):
    """Share of all equally likely resamples of the blocks in which each model leads;
    equal means share a resample."""
    firsts = [0.0] * len(values)
    resamples = [*product(range(len(blocks)), repeat=len(blocks))]
    for drawn in resamples:
        places = [place for block in drawn for place in blocks[block]]
        means = [sum(row[i] for i in places) / len(places) for row in values]
        best = [n for n, mean in enumerate(means) if mean == max(means)]
        for n in best:
            firsts[n] += 1 / len(best) / len(resamples)
    return firsts


def test_the_share_of_first_places_is_that_of_all_resamples():
    found = rank_estimates(VALUES)
    exact = exact_firsts(VALUES, [[i] for i in range(5)])
    assert [one.first for one in found] == pytest.approx(exact, abs=0.04)
    assert [one.rank for one in found] == [1, 2, 2]


def test_clusters_are_drawn_as_a_whole():
    found = rank_estimates(VALUES, ["x", "x", "y", "y", "y"])
    exact = exact_firsts(VALUES, [[0, 1], [2, 3, 4]])
    assert [one.first for one in found] == pytest.approx(exact, abs=0.04)


def test_a_model_that_is_better_on_each_document_is_first_in_each_resample():
    best, worst = rank_estimates([[2.0, 3.0, 4.0], [1.0, 2.0, 3.0]])
    assert best == (1, 1, 1, 1.0)
    assert worst == (2, 2, 2, 0.0)


def test_equal_models_share_the_first_rank():
    for one in rank_estimates([[0.1, 0.7, 0.3]] * 4):
        assert one == (1, 1, 1, 0.25)


def test_ranks_are_the_same_each_time():
    assert rank_estimates(VALUES) == rank_estimates(VALUES)
