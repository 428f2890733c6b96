"""``largest_drop``: an assumption that narrows a baseline gate on scores."""

import math

import numpy as np
import pytest

from pytest_evals import judge_gate
from pytest_evals.errors import TaskFileError

GATE = {"max_drop": 0.02}


def needed(margin, largest):
    """Documents without a change, after which a mean drop by the margin, of which none
    is above the largest, is unlikely: (1 - margin / largest)^n <= 0.05."""
    return math.ceil(math.log(0.05) / math.log(1 - margin / largest))


@pytest.mark.parametrize(("largest", "n"), [(1, 149), (0.5, 74), (0.1, 14)])
def test_unchanged_scores_pass_from_the_stated_number_of_documents_on(largest, n):
    assert n == needed(0.02, largest)
    for documents, outcome in ((n, "passed"), (n - 1, "inconclusive")):
        scores = np.random.default_rng(0).random(documents).tolist()
        found = judge_gate(GATE | {"largest_drop": largest}, scores, baseline=scores)
        assert found.outcome == outcome
        assert any(f"no document loses more than {largest:g}" in n for n in found.notes)


def test_an_inconclusive_gate_offers_the_assumption_with_its_documents():
    scores = np.random.default_rng(0).random(100).tolist()
    (note, *_) = judge_gate(GATE, scores, baseline=scores).notes
    assert "passes only from 149 documents on, not with 100" in note
    assert "from 74 on" in note
    assert "largest_drop: 0.5" in note


@pytest.mark.parametrize(
    ("gate", "new", "why"),
    [
        ({"largest_drop": 0.3}, 0.5, "document '7' lost 0.4, and largest_drop"),
        ({"largest_drop": 0.02, "max_drop": "3%"}, 0.9, "pass by assumption alone"),
        ({"largest_drop": 0.3}, 0.8, None),
    ],
)
def test_a_document_that_loses_more_makes_the_gate_invalid(gate, new, why):
    old = [0.9] * 80
    now = [0.9] * 7 + [new] + [0.9] * 72
    found = judge_gate(GATE | gate, now, baseline=old)
    if why is None:
        assert found.outcome == "passed"
    else:
        assert found.outcome == "invalid"
        assert why in found.reason


@pytest.mark.parametrize(
    ("scores", "ends", "why"),
    [
        ([1, 0] * 50, (0, 1), "becomes wrong loses 1"),
        ([0.3, 0.4] * 50, None, "needs scores in a known range"),
    ],
)
def test_it_does_not_apply_to_answers_and_to_scores_of_unknown_range(scores, ends, why):
    gate = GATE | {"largest_drop": 0.5}
    found = judge_gate(gate, scores, baseline=scores, range=ends)
    assert found.outcome == "invalid"
    assert why in found.reason


@pytest.mark.parametrize(
    ("gate", "why"),
    [
        ({"min": 0.5, "largest_drop": 0.5}, "needs baseline and max_drop"),
        ({"max_rise": 0.1, "largest_drop": 0.5}, "needs baseline and max_drop"),
        ({"max_drop": 0.1, "largest_drop": 0}, "must be above 0"),
        ({"max_drop": 0.1, "largest_drop": 0.1}, "pass by assumption alone"),
        ({"max_drop": 0.1, "largest_drop": 0.5, "over": "run"}, "no effect with over"),
    ],
)
def test_gates_without_use_for_it_are_refused(gate, why):
    baseline = None if "min" in gate else [0.5, 0.6]
    with pytest.raises(TaskFileError, match=why):
        judge_gate(gate, [0.5, 0.6], baseline=baseline)


def test_a_missing_score_could_contradict_the_assumption():
    old = [0.9] * 400
    gate = {"max_drop": 0.02, "largest_drop": 0.25}
    assert judge_gate(gate, old, baseline=old).outcome == "passed"
    assert judge_gate(gate, [None, *old[1:]], baseline=old).outcome == "invalid"


@pytest.mark.slow
def test_it_keeps_the_error_rate_if_the_assumption_holds():
    """3% of documents lose 0.5, all that is assumed possible: the margin exactly."""
    rng, passed = np.random.default_rng(0), 0
    gate = {"max_drop": 0.015, "largest_drop": 0.5}
    for _ in range(200):
        new = np.where(rng.random(150) < 0.03, 0.25, 0.75).tolist()
        passed += judge_gate(gate, new, baseline=[0.75] * 150).outcome == "passed"
    assert passed <= 19  # 5% of 200, and three standard errors
