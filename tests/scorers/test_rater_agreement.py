"""Krippendorff's alpha against published values and another formula."""

from __future__ import annotations

import itertools
import random

import pytest

from pytest_evals.scorers.judge_error import alpha_limits, krippendorff_alpha

_ = None
# Krippendorff (2011), Computing Krippendorff's Alpha-Reliability, section C: four
# observers, twelve units, missing values.
PUBLISHED = [
    (1, 2, 3, 3, 2, 1, 4, 1, 2, _, _, _),
    (1, 2, 3, 3, 2, 2, 4, 1, 2, 5, _, 3),
    (_, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, _),
    (1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, _),
]


def units(raters):
    return [
        [x for x in one if x is not None] for one in zip(*raters, strict=True)
    ]  # fmt: skip


def by_coincidences(given):
    """Nominal alpha by the coincidence matrix, as in the paper."""
    counts = {}
    for ratings in given:
        for a, b in itertools.permutations(ratings, 2):
            counts[a, b] = counts.get((a, b), 0) + 1 / (len(ratings) - 1)
    totals = {}
    for (a, _b), n in counts.items():
        totals[a] = totals.get(a, 0) + n
    n = sum(totals.values())
    observed = sum(count for (a, b), count in counts.items() if a != b)
    expected = sum(
        totals[a] * totals[b] for a in totals for b in totals if a != b
    ) / (n - 1)  # fmt: skip
    return 1 - observed / expected


def test_alpha_is_that_of_the_paper():
    assert krippendorff_alpha(units(PUBLISHED)) == pytest.approx(0.849, abs=5e-4)


def test_alpha_of_pass_and_fail_is_the_nominal_one():
    raters = [[int(one) for one in text] for text in ("1011", "1011", "1001")]
    # Computed with the package krippendorff 0.9.0.
    assert krippendorff_alpha(units(raters)) == pytest.approx(0.65625)
    rng = random.Random(0)
    for _n in range(20):
        given = [
            [rng.randint(0, 1) for _k in range(rng.randint(1, 4))] for _u in "a" * 9
        ]
        given += [[0, 1], [1, 1]]
        assert krippendorff_alpha(given) == pytest.approx(by_coincidences(given))


def test_alpha_of_equal_ratings_is_undefined():
    assert krippendorff_alpha([[1, 1], [1, 1]]) is None
    assert krippendorff_alpha([]) is None
    assert alpha_limits([[[1, 1]], [[1, 1]]], 0.95) is None


def test_limits_resample_documents_and_count_undefined_resamples():
    documents = [[[0, 0, 0]], [[1, 1, 1]], [[0, 0, 1]], [[1, 1, 0]]] * 10
    found = alpha_limits(documents, 0.95)
    assert found == alpha_limits(documents, 0.95)
    value = krippendorff_alpha([one for units in documents for one in units])
    assert found.low < value < found.high
    assert found.n_undefined == 0
    # Copies of answers of one document add no information.
    copied = [[unit for unit in units for _k in range(4)] for units in documents]
    same = alpha_limits(copied, 0.95)
    assert same.high - same.low == pytest.approx(found.high - found.low, rel=0.1)
    few = alpha_limits([[[1, 1]], [[1, 1]], [[0, 1]]], 0.95)
    assert few.n_undefined > 0  # (2/3)**3 of the resamples have equal ratings only
