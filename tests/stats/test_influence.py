"""Standard errors by slopes, compared with known formulas and scikit-learn."""

import math

import numpy as np
import pytest
from sklearn.metrics import f1_score, matthews_corrcoef

from pytest_evals.scorers.agreement import f1_totals, matthews_totals, weighted_totals
from pytest_evals.stats.averages import influences


def stderr(totals):
    found = influences(totals.columns, totals.score)
    n = len(found)
    return math.sqrt(n / (n - 1) * float((found**2).sum())) / n


def test_influence_on_a_mean_is_the_deviation_from_it():
    values = [0.5, 2.0, -1.0, 4.0]
    columns = [values, [1.0] * 4]
    found = influences(columns, lambda sums: sums[0] / sums[1])
    assert found == pytest.approx(np.array(values) - np.mean(values), abs=1e-9)


def test_ratio_of_sums_has_its_textbook_standard_error():
    """Cochran, Sampling Techniques (1977), 6.13, without finite population
    correction."""
    generator = np.random.default_rng(3)
    lengths = generator.integers(5, 60, 300)
    losses = lengths * 2.0 + generator.normal(0, 10, 300)
    ratio = losses.sum() / lengths.sum()
    residuals = losses - ratio * lengths
    known = math.sqrt((residuals**2).sum() / 299 / 300) / lengths.mean()
    totals = weighted_totals(((-losses).tolist(), lengths.tolist()))
    assert totals.score([losses.sum(), lengths.sum()]) == pytest.approx(ratio)
    assert stderr(totals) == pytest.approx(known, rel=1e-6)


def labels(n, seed, n_labels=2):
    generator = np.random.default_rng(seed)
    golds = generator.integers(0, n_labels, n)
    predicted = np.where(
        generator.random(n) < 0.7, golds, generator.integers(0, n_labels, n)
    )
    return golds.tolist(), predicted.tolist()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("totals", "known", "n_labels"),
    [
        (f1_totals, f1_score, 2),
        (matthews_totals, matthews_corrcoef, 2),
        (matthews_totals, matthews_corrcoef, 5),
    ],
)
def test_stderr_of_corpus_metrics_is_near_the_jackknifes(totals, known, n_labels):
    """Leaving out each document in turn, with scikit-learn's metric."""
    golds, predicted = labels(250, 7, n_labels)
    counted = totals((golds, predicted))
    sums = [math.fsum(column) for column in counted.columns]
    assert counted.score(sums) == pytest.approx(known(golds, predicted))
    n = len(golds)
    without = np.array(
        [
            known(golds[:i] + golds[i + 1 :], predicted[:i] + predicted[i + 1 :])
            for i in range(n)
        ]
    )
    jackknife = math.sqrt((n - 1) / n * ((without - without.mean()) ** 2).sum())
    assert stderr(counted) == pytest.approx(jackknife, rel=0.01)
