"""Weighted sums of means in a known range."""

import numpy as np
import pytest

from pytest_evals.stats.independent import enclosing, stratified, stratified_counts
from pytest_evals.stats.interval_methods import WidestInterval
from pytest_evals.stats.mean_limits import bounded_mean

LABELS = [i % 4 for i in range(24)]


def total(tasks, clustered=False):
    labels = LABELS if clustered else None
    means = [bounded_mean(task, clusters=labels) for task in tasks]
    return stratified(means, [1 / len(tasks)] * len(tasks))


@pytest.mark.parametrize("clustered", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_limits_of_values_between_two_samples_are_between_the_enclosing_ones(
    seed, clustered
):
    """The limits of the two samples themselves do not enclose them: a value far from
    the others widens both."""
    rng = np.random.default_rng(seed)
    known = (rng.random((2, 21)) < (0.0, 0.5, 0.96, 1.0)[seed]).astype(float)

    def with_others(others):
        return [[*row, *more] for row, more in zip(known, others, strict=True)]

    low, high = (
        total(with_others(np.full((2, 3), end)), clustered) for end in (0.0, 1.0)
    )
    lowest, highest = (one.interval(0.95) for one in enclosing(low, high))
    for _ in range(6):
        others = rng.choice([0.0, 0.3, 1.0], (2, 3))
        found = total(with_others(others), clustered).interval(0.95)
        for end in (0, 1):
            assert lowest[end] <= found[end] + 1e-7
            assert found[end] <= highest[end] + 1e-7


def test_clusters_never_narrow_the_limits_of_a_sum():
    """Here documents of one cluster differ more than those of different clusters, in
    one task only."""
    tasks = [[i // 4 % 2 for i in range(24)], [i % 4 % 2 for i in range(24)]]
    found = total(tasks, clustered=True)
    assert isinstance(found, WidestInterval)
    low, high = found.interval(0.95)
    plain = total(tasks).interval(0.95)
    assert low <= plain.low
    assert high >= plain.high
    for p_clustered, p_plain in (
        (found.p_less(0.7), total(tasks).p_less(0.7)),
        (found.p_greater(0.3), total(tasks).p_greater(0.3)),
    ):
        assert p_clustered >= p_plain


def test_a_plan_with_less_than_one_document_in_a_task_has_limits():
    found = stratified_counts([{0.0: 0.1, 1.0: 0.4}, {0.0: 0.2, 1.0: 0.3}], [0.5, 0.5])
    assert 0 <= found.p_greater(0.5) <= 1
    assert 0 <= found.p_less(0.5) <= 1
