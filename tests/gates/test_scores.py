"""``judge_gate()`` and ``judge_gates()``: limits from scipy, and regressions."""

import numpy as np
import pytest
from scipy import stats

from pytest_evals import OptionError, TaskFileError, judge_gate, judge_gates

FLOOR = {"min": 0.9, "over": "population"}


def test_a_bare_bound_compares_the_number_and_has_no_p_value():
    found = judge_gate("acc >= 0.9", [True] * 9 + [False])
    assert (found.outcome, found.value) == ("passed", 0.9)
    assert (found.low, found.high, found.p_value) == (None, None, None)
    assert judge_gate("acc > 0.9", [1] * 9 + [0]).outcome == "failed"


@pytest.mark.parametrize(
    ("right", "outcome"), [(99, "passed"), (95, "inconclusive"), (80, "failed")]
)
def test_right_and_wrong_answers_are_judged_by_the_exact_binomial_test(right, outcome):
    found = judge_gate(FLOOR, [1] * right + [0] * (100 - right))
    known = stats.binomtest(right, 100, 0.9)
    limits = known.proportion_ci(0.9, "exact")
    greater = stats.binomtest(right, 100, 0.9, alternative="greater").pvalue
    less = stats.binomtest(right, 100, 0.9, alternative="less").pvalue
    assert found.outcome == outcome
    assert (found.low, found.high) == pytest.approx((limits.low, limits.high))
    decided = {"passed": greater, "failed": less, "inconclusive": min(greater, less)}
    assert found.p_value == pytest.approx(decided[outcome])


@pytest.mark.parametrize(
    ("gate", "scores"),
    [
        ({"min": 0.99, "over": "population"}, [1.0] * 99 + [0.99]),
        ({"min": 0.9, "over": "population"}, [1.0] * 9 + [0.99]),
    ],
)
def test_nearly_identical_scores_prove_no_more_than_their_number(gate, scores):
    found = judge_gate(gate, scores)
    assert found.outcome == "inconclusive"
    assert 0 <= found.low < gate["min"] <= found.high <= 1


def test_unchanged_scores_of_few_documents_do_not_exclude_a_small_drop():
    found = judge_gate({"max_drop": "0.1%"}, [0.5] * 20, baseline=[0.5] * 20)
    assert (found.outcome, found.value) == ("inconclusive", 0)
    assert found.low == pytest.approx(-(1 - 0.05 ** (1 / 20)), abs=1e-6)


def test_clusters_of_one_document_are_not_narrower_than_none():
    """4 of 200 lost. Tango's lower limit by its published formula: -4.38 points."""
    new, old = [0] * 4 + [1] * 196, [1] * 200
    gate = {"max_drop": 0.04}
    alone = judge_gate(gate, new, baseline=old)
    found = judge_gate(gate, new, baseline=old, clusters=range(200))
    assert alone.low == pytest.approx(-0.0438, abs=5e-5)
    assert found.low <= alone.low
    assert found.high >= alone.high
    assert (alone.outcome, found.outcome) == ("inconclusive", "inconclusive")


def test_clusters_are_counted_without_a_key_in_the_gate():
    scores, passages = [1] * 90 + [0] * 10, [i // 10 for i in range(100)]
    alone = judge_gate({"min": 0.7, "over": "population"}, scores)
    found = judge_gate({"min": 0.7}, scores, clusters=passages)
    assert alone.outcome == "passed"
    assert found.outcome == "inconclusive"
    assert found.low < alone.low


@pytest.mark.parametrize("values", [[0, 1], [0.02, 0.05]])
def test_scores_of_unknown_range_are_neither_bounded_nor_a_proportion(values):
    """20 of such scores do not exclude 3% of 5: a mean of 0.1985."""
    gate = {"max": 0.55 + 0.1985, "over": "population"}
    unknown = judge_gate(gate, values * 10, range=None)
    known = judge_gate(gate, values * 10)
    assert (unknown.outcome, known.outcome) == ("inconclusive", "passed")
    assert "range: [lowest, highest] in the gate" in unknown.notes[-1]
    assert not known.notes


def test_a_range_in_the_gate_counts_and_is_checked():
    gate = {"min": 6, "over": "population", "range": [0, 10]}
    marks = [7.0, 8.0, 9.0] * 20
    declared = judge_gate(gate, marks, range=None)
    passed = judge_gate({"min": 6, "over": "population"}, marks, range=(0, 10))
    assert (declared.low, declared.high) == (passed.low, passed.high)
    with pytest.raises(OptionError, match=r"scores\[2\] is 9.0, outside of range"):
        judge_gate({**gate, "range": [0, 8]}, marks)
    for wrong in ([10, 0], [1], "0-10", [0, float("inf")]):
        with pytest.raises((TaskFileError, OptionError), match="range"):
            judge_gate({**gate, "range": wrong}, marks)


def test_all_scores_0_or_1_are_no_proportion_in_a_wider_range():
    gate = {"min": 0.1, "over": "population"}
    wide = judge_gate(gate, [0, 1] * 20, range=(0, 10))
    assert wide.high > 10 * (1 - 0.05 ** (1 / 40)) > judge_gate(gate, [0, 1] * 20).high


def test_nearly_equal_scores_have_finite_limits_and_a_number_of_documents():
    gate = {"max": 0.01, "over": "population"}
    found = judge_gate(gate, [1e-4] * 99 + [2e-4], range=None)
    assert found.outcome == "inconclusive"
    assert found.high < 1
    assert "documents would decide it" in found.reason


@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_numbers_of_numpy_are_numbers(kind):
    assert judge_gate({"min": kind(0.5)}, [1, 0, 1]).outcome == "passed"
    gate = {"max_drop": kind(0.5), "confidence": kind(0.9)}
    assert judge_gate(gate, np.ones(30), baseline=np.ones(30)).outcome == "passed"


def test_repeats_may_be_rows_or_all_in_a_row():
    rows = [[1, 0], [1, 1], [0, 0], [1, 1]] * 10
    gate = {"min": 0.3, "over": "population"}
    found = judge_gate(gate, rows, repeats=2)
    assert found.value == pytest.approx(0.625)
    flat = judge_gate(gate, [one for row in rows for one in row], repeats=2)
    assert (flat.low, flat.high) == (found.low, found.high)


def test_unbounded_scores_have_limits_outside_of_0_and_1():
    scores = np.random.default_rng(0).lognormal(1, 1, 60).tolist()
    found = judge_gate({"min": 1, "over": "population"}, scores, range=None)
    assert found.outcome == "passed"
    assert found.high > 4


def test_a_missing_score_is_neither_right_nor_wrong():
    assert judge_gate("acc >= 0.6", [1, None] * 10).outcome == "invalid"
    found = judge_gate(FLOOR, [1] * 99 + [None])
    assert found.outcome == "passed"
    # the worst case of one missing score: 99 of 100
    assert judge_gate(
        {"min": 0.96, "over": "population"}, [1] * 99 + [None]
    ).outcome == ("invalid")
    found = judge_gate({"min": 0.5, "over": "population"}, [0.8, 0.9] * 50 + [None])
    assert found.outcome == "passed"


def test_gates_that_are_judged_together_are_one_family():
    close = [1] * 83 + [0] * 17  # p = 0.021 alone
    gates = {"a": (FLOOR, close)}
    gates |= {name: (FLOOR, [1] * 100) for name in "bcde"}
    alone, among = judge_gate(FLOOR, close), judge_gates(gates)["a"]
    assert alone.outcome == "failed"
    assert among.outcome == "inconclusive"
    assert among.conclusion == "proven too low alone, not among 5 gates"
    assert (alone.is_red, among.is_red) == (True, False)
    own = judge_gates(gates | {"a": ({**FLOOR, "family": "none"}, close)})["a"]
    assert own.outcome == "failed"


def test_gates_that_cannot_fail_do_not_cause_a_correction():
    close = [1] * 83 + [0] * 17
    never = {"min": 0, "over": "population"}
    gates = {"a": (FLOOR, close)} | {name: (never, [1] * 100) for name in "bcde"}
    assert judge_gates(gates)["a"].outcome == "failed"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: judge_gate("acc >= 1", [0.5, 2]),
            r"scores\[1\] is 2, outside of range",
        ),
        (lambda: judge_gate("acc >= 1", ["a"]), r"scores\[0\] must be a finite number"),
        (lambda: judge_gate("acc >= 1", []), "scores is empty"),
        (lambda: judge_gate("acc >= 1", 3), "scores must be a sequence of numbers"),
        (
            lambda: judge_gate("acc >= 1", [1] * 5, repeats=2),
            "repeats=2 does not divide",
        ),
        (
            lambda: judge_gate("acc >= 1", [1], repeats=1),
            "repeats must be a whole number",
        ),
        (lambda: judge_gate("acc >= 1", [1], clusters=[1, 2]), "clusters has 2 labels"),
        (lambda: judge_gate("acc >= 1", [1], range=(1, 0)), "range must ascend"),
        (
            lambda: judge_gate({"max_drop": 0}, [1], baseline=[1, 1]),
            "baseline has 2 documents, and scores 1",
        ),
        (
            lambda: judge_gate({"max_drop": 0, "baseline": "main"}, [1]),
            "no scores of it are given",
        ),
        (lambda: judge_gate(None, [1]), "gate must be text"),
        (lambda: judge_gates({"a": [1]}), r"gates\['a'\] must be a pair"),
    ],
)
def test_a_wrong_argument_is_named(call, message):
    with pytest.raises(OptionError, match=message):
        call()


def test_a_wrong_gate_is_an_error_with_a_suggestion():
    with pytest.raises(TaskFileError, match="no key 'mni'; did you mean 'min'"):
        judge_gate({"mni": 0.5}, [1])
    with pytest.raises(OptionError, match="column"):
        judge_gate("acc >= high", [1])


@pytest.mark.parametrize(
    ("scores", "assumed"),
    [([0.2, 4] * 20, (0, 120)), ([0.2] * 40, (0, 30)), ([-1, 4] * 20, (-120, 120))],
)
def test_limits_of_unknown_range_are_those_of_the_range_that_the_note_names(
    scores, assumed
):
    gate = {"max": 9, "over": "population"}
    found = judge_gate(gate, scores, range=None)
    (note,) = found.notes
    assert f"assume scores from {assumed[0]} to {assumed[1]}; range: [" in note
    known = judge_gate({**gate, "range": [*assumed]}, scores)
    assert (found.outcome, found.low, found.high) == (
        known.outcome,
        known.low,
        known.high,
    )
    assert not known.notes


def test_scores_of_unknown_range_do_not_exclude_rare_ones_of_thirty_times_the_largest():
    """A score of 30 among .01 of the documents raises a mean of 0 to 0.3."""
    gate = {"max": 0.3, "over": "population"}
    for n, outcome in ((298, "inconclusive"), (299, "passed")):
        assert judge_gate(gate, [0.0] * n, range=None).outcome == outcome


def test_repeats_may_be_rows_or_all_in_a_row_with_missing_scores():
    gate = {"min": 0.1, "over": "benchmark"}
    flat = judge_gate(gate, [None, None, 1, 1, 1, 0] * 20, repeats=2)
    rows = judge_gate(gate, [None, [1, 1], [1, 0]] * 20, repeats=2)
    assert (flat.outcome, flat.value) == (rows.outcome, rows.value)
    with pytest.raises(OptionError, match="not both"):
        judge_gate(gate, [1, [1, 0]], repeats=2)


def test_a_confidence_limit_is_shown_on_its_side_of_the_threshold():
    """Not as -2.00, which would meet a margin of 2 points: at -2.004 it does not."""
    same = [i / 148 for i in range(148)]
    verdict = judge_gate({"max_drop": 0.02}, same, baseline=same)
    assert verdict.outcome.value == "inconclusive"
    low = float(verdict.reason.partition("90% CI [")[2].partition(",")[0])
    assert low < -2


def test_unchanged_scores_of_unknown_range_do_not_exclude_rare_large_changes():
    """A change of 30 in a share of .01 of the documents is the margin: .99^n <= .05."""
    for n, outcome in ((298, "inconclusive"), (299, "passed")):
        scores = [i / n for i in range(n)]
        gate = {"max_rise": 0.3}
        found = judge_gate(gate, scores, baseline=scores, range=None)
        assert found.outcome == outcome
