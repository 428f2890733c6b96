"""Label agreement against lm-eval's recorded values (scikit-learn behind them)."""

import json
from pathlib import Path

import pytest

from pytest_evals.stats.agreement import brier_score, f1_score, matthews_corrcoef

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
