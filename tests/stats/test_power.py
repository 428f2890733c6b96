"""Power by the textbook's formulas: the tables of the reference page of gates (§6), and
statsmodels."""

import pytest
from scipy.stats import norm

from pytest_evals.stats.power import (
    chance_below,
    chance_proven,
    detectable,
    documents_for,
    paired_stderr,
    unpaired_stderr,
)


@pytest.mark.parametrize(
    ("n", "half", "three_quarters", "paired_5", "paired_10"),
    [
        (100, 17.6, 15.2, 5.6, 7.9),
        (1000, 5.6, 4.8, 1.8, 2.5),
        (5000, 2.5, 2.2, 0.8, 1.1),
    ],
)
def test_detectable_drops_are_those_of_the_table(
    n, half, three_quarters, paired_5, paired_10
):
    """§6: points, one-sided 5 %, power 80 %."""
    found = [
        detectable(unpaired_stderr(0.5, n), 0.95),
        detectable(unpaired_stderr(0.75, n), 0.95),
        detectable(paired_stderr(0.05, n), 0.95),
        detectable(paired_stderr(0.10, n), 0.95),
    ]
    wanted = [half, three_quarters, paired_5, paired_10]
    assert [100 * x for x in found] == pytest.approx(wanted, abs=0.06)


@pytest.mark.parametrize(
    ("drop", "flips", "n"),
    [(0.01, 0.02, 1237), (0.01, 0.05, 3092), (0.02, 0.10, 1546), (0.05, 0.05, 124)],
)
def test_documents_are_those_of_the_table(drop, flips, n):
    assert documents_for(drop, flips, 0.95) == pytest.approx(n, abs=1)


def test_drop_turns_at_least_as_many_answers():
    assert paired_stderr(0.02, 100, 0.06) == paired_stderr(0.06, 100, 0.06)


def test_chances_are_those_of_the_normal_distribution():
    assert chance_below(0.7, 0.72, 0.01) == pytest.approx(norm.cdf(-2))
    # §6: N = 1,000, 5 % flips, margin 2 points: 86.9 % (exact simulation: 86.7 %).
    stderr = paired_stderr(0.05, 1000)
    assert chance_proven(0.02, stderr, 0.95) == pytest.approx(0.869, abs=0.02)


def test_nothing_is_left_to_chance_without_noise():
    assert (chance_below(0.7, 0.7, 0), chance_below(0.7, 0.69, 0)) == (0, 1)
    assert chance_proven(0.01, 0, 0.95) == 1
