"""Label agreement against lm-eval's recorded values (scikit-learn behind them)."""

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score
from statsmodels.api import OLS

from pytest_evals.scorers.agreement import (
    brier_score,
    f1_score,
    matthews_corrcoef,
)
from pytest_evals.scorers.judge_error import kappa, slope_within

RECORDED = json.loads((Path(__file__).parent / "lm_eval_aggregations.json").read_text())
FUNCTIONS = {
    "f1": f1_score,
    "matthews_corrcoef": matthews_corrcoef,
    "brier_score": brier_score,
}
CASES = [c for c in RECORDED["cases"] if c["aggregation"] in FUNCTIONS]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c["aggregation"])
def test_values_are_those_of_lm_eval(case):
    golds, predictions = zip(*case["values"], strict=True)
    value = FUNCTIONS[case["aggregation"]](golds, predictions)
    assert value == pytest.approx(case["value"], rel=1e-12)


def test_f1_is_zero_when_the_positive_label_never_occurs():
    assert f1_score([0, 0], [0, 0]) == 0.0


@pytest.mark.parametrize("golds", [[0, 2], [0, 1, 2]])
def test_f1_refuses_labels_that_are_not_binary(golds):
    with pytest.raises(ValueError, match="binary F1 needs labels 1"):
        f1_score(golds, golds)


def test_matthews_is_zero_when_one_side_never_changes():
    assert matthews_corrcoef([0, 1, 0], [1, 1, 1]) == 0.0
    assert matthews_corrcoef(["a", "b"], ["a", "b"]) == 1.0


def test_brier_score_of_a_certain_right_and_a_certain_wrong_answer():
    assert brier_score([0, 1], [[1.0, 0.0], [1.0, 0.0]]) == 1.0
    with pytest.raises(IndexError):
        brier_score([-100], [[0.5, 0.5]])


@pytest.mark.parametrize("weights", [None, "quadratic"])
def test_kappa_is_that_of_scikit_learn(weights):
    rng = np.random.default_rng(2)
    most = 2 if weights is None else 5
    human = rng.integers(0, most, 80)
    judge = np.where(rng.random(80) < 0.6, human, rng.integers(0, most, 80))
    expected = cohen_kappa_score(human, judge, weights=weights)
    pairs = [*zip(human.tolist(), judge.tolist(), strict=True)]
    assert kappa(pairs) == pytest.approx(expected)


def test_kappa_is_undefined_when_everything_is_rated_alike():
    assert kappa([(1, 1)] * 40) is None
    assert kappa([(1, 1)] * 39 + [(1, 0)]) == 0


def test_slope_within_groups_is_that_of_least_squares_with_dummies():
    rng = np.random.default_rng(3)
    groups = rng.integers(0, 3, 60)
    x = rng.normal(size=60) + groups
    y = 0.2 * x - 2 * groups + rng.normal(size=60)
    dummies = np.column_stack([x, *(groups == one for one in range(3))]).astype(float)
    fit = OLS(y, dummies).fit()
    found = slope_within(groups.tolist(), x.tolist(), y.tolist())
    assert found is not None
    assert found[0] == pytest.approx(fit.params[0])
    assert found[1] == pytest.approx(fit.pvalues[0], abs=0.03)


def test_a_slope_needs_values_that_vary_within_a_group():
    assert slope_within([0, 0, 1, 1], [2, 2, 5, 5], [0, 1, 0, 1]) is None
    assert slope_within([0, 1, 2], [1, 2, 3], [1, 2, 3]) is None
