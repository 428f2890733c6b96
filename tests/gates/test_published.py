"""Gates against a published number: the sampling errors of both count."""

import numpy as np
import pytest
from statsmodels.stats.proportion import confint_proportions_2indep

from pytest_evals import judge_gate
from pytest_evals.errors import OptionError, TaskFileError

GATE = {"reference": 0.742, "reference_n": 1319, "max_drop": 0.03}


def scores(n_correct, n):
    return [1] * n_correct + [0] * (n - n_correct)


@pytest.mark.slow
def test_the_limits_are_near_those_of_two_independent_proportions():
    """statsmodels 0.14, score method of Miettinen and Nurminen, two one-sided 5%."""
    found = judge_gate(GATE, scores(960, 1319))
    low, high = confint_proportions_2indep(
        960, 1319, 0.742 * 1319, 1319, compare="diff", method="score", alpha=0.1
    )
    assert found.value == pytest.approx(960 / 1319 - 0.742)
    assert found.low == pytest.approx(low, abs=2e-3)
    assert found.high == pytest.approx(high, abs=2e-3)
    assert found.outcome == "inconclusive"
    assert 0.05 < found.p_value < 0.2


def test_a_clear_drop_fails_and_an_equal_model_passes_with_enough_documents():
    assert judge_gate(GATE, scores(800, 1319)).outcome == "failed"
    assert judge_gate(
        {**GATE, "reference_n": 14_000}, scores(10_400, 14_000)
    ).outcome == ("passed")


def test_an_unknown_number_of_documents_is_reported():
    gate = {"reference": 0.742, "max_drop": 0.03}
    found = judge_gate(gate, scores(979, 1319))
    assert any("set reference_n" in note for note in found.notes)
    assert found.low > judge_gate(GATE, scores(979, 1319)).low


@pytest.mark.slow
def test_a_perplexity_is_bounded_from_above():
    generator = np.random.default_rng(0)
    gate = {"reference": 10, "reference_n": 500, "max_rise": "5%"}
    same = judge_gate(gate, generator.normal(10, 1, 500).tolist(), range=(5, 15))
    worse = judge_gate(gate, generator.normal(11, 1, 500).tolist(), range=(5, 15))
    assert (same.outcome, worse.outcome) == ("passed", "failed")


@pytest.mark.slow
def test_recovery_is_a_fraction_of_the_reference():
    gate = {"reference": 0.8, "reference_n": 100_000, "recovery": 0.9}
    assert judge_gate(gate, scores(3900, 5000)).outcome == "passed"
    assert judge_gate(gate, scores(3400, 5000)).outcome == "failed"


@pytest.mark.slow
def test_missing_scores_that_could_change_the_verdict_make_it_invalid():
    lost = [*scores(960, 1200), *[None] * 119]
    assert judge_gate(GATE, lost).outcome == "invalid"
    few = [*scores(1100, 1318), None]
    assert judge_gate(GATE, few).outcome == "passed"


@pytest.mark.parametrize(
    ("gate", "message"),
    [
        ({"reference": 0.7}, "a comparison needs one of max_drop"),
        ({"reference": "x", "max_drop": 0}, "reference must be a finite number"),
        ({**GATE, "reference_n": 0}, "must be the number of documents"),
        ({**GATE, "min": 0.5}, "cannot be combined with reference"),
        ({"reference_n": 10, "min": 0.5}, "reference_n needs a reference"),
        ({**GATE, "reference": {"value": 1, "shots": 5}}, "has no key 'shots'"),
        ({**GATE, "reference": {"num_fewshot": 5}}, "reference has no value"),
        ({**GATE, "over": "benchmark"}, "has the error of its documents"),
    ],
)
def test_invalid_entries_are_refused(gate, message):
    with pytest.raises((TaskFileError, OptionError), match=message):
        judge_gate(gate, [1, 0])


@pytest.mark.slow
def test_no_number_of_documents_makes_up_for_a_reference_over_few():
    gate = {"reference": 0.735, "reference_n": 200, "max_drop": 0.05}
    found = judge_gate(gate, scores(145, 200))
    assert found.outcome == "inconclusive"
    assert any("no number" in note for note in found.notes)


@pytest.mark.nightly
@pytest.mark.parametrize(("n", "n_reference"), [(200, 200), (1000, 200), (300, 5000)])
def test_a_model_on_the_margin_is_decided_wrongly_in_5_of_100_samples_at_most(
    n, n_reference
):
    generator = np.random.default_rng(n)
    passed = failed = 0
    for _ in range(300):
        old = generator.binomial(n_reference, 0.8) / n_reference
        new = generator.binomial(n, 0.75)
        gate = {"reference": old, "reference_n": n_reference, "max_drop": 0.05}
        outcome = judge_gate(gate, scores(new, n)).outcome
        passed += outcome == "passed"
        failed += outcome == "failed"
    assert passed / 300 < 0.05 + 0.026
    assert failed / 300 < 0.05 + 0.026
