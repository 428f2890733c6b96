"""Failed verdicts of many gates. Adjusted values are Holm's, computed by hand."""

from pathlib import Path

import pytest

from pytest_evals.core.gate import Gate, Outcome, Verdict
from pytest_evals.errors import Place
from pytest_evals.gates.decide import corrected

RED, OPEN = Outcome.FAILED, Outcome.INCONCLUSIVE


def verdict(name, p, outcome=RED, family=""):
    gate = Gate(id=name, task="t", family=family, source=Place(Path("g.yaml"), 1))
    return Verdict(gate=gate, outcome=outcome, p_fails=p, reason="worse")


def test_a_failure_explained_by_multiple_testing_is_inconclusive():
    found = corrected(
        [verdict("a", 0.001), verdict("b", 0.03), verdict("c", 0.6, OPEN)]
    )
    assert [v.p_adjusted for v in found] == pytest.approx([0.003, 0.06, 0.6])
    assert [v.outcome for v in found] == [RED, OPEN, OPEN]
    assert found[1].conclusion.endswith(" alone, not among 3 gates")
    assert found[1].method.endswith("p = 0.030 alone, 0.060 after Holm over 3 gates")
    assert found[0].method.endswith("p = 0.001 alone, 0.003 after Holm over 3 gates")


def test_families_are_corrected_separately_and_gates_without_one_are_not():
    found = corrected(
        [
            verdict("a", 0.03),
            verdict("b", 0.03, family="x"),
            verdict("c", 0.03, family="none"),
        ]
    )
    assert [v.outcome for v in found] == [RED] * 3
    assert [v.p_adjusted for v in found] == [0.03, 0.03, None]


def test_gates_that_compare_the_number_are_in_no_family():
    found = corrected([verdict("a", 0.03), verdict("b", None), verdict("c", None)])
    assert [v.outcome for v in found] == [RED] * 3


def test_passed_gates_stay_passed():
    given = [verdict(str(i), 1.0, Outcome.PASSED) for i in range(20)]
    assert [v.outcome for v in corrected(given)] == [Outcome.PASSED] * 20


def test_a_family_is_a_task_unless_the_gate_names_one():
    def of(task, family):
        gate = Gate(id="a", task=task, family=family, source=Place(Path("g.yaml"), 1))
        return Verdict(gate=gate, outcome=RED, p_fails=0.03, reason="worse")

    alone = corrected([of("algebra", ""), of("logic", "")])
    assert [v.outcome for v in alone] == [RED, RED]
    together = corrected([of("algebra", "all"), of("logic", "all")])
    assert [v.p_adjusted for v in together] == pytest.approx([0.06, 0.06])


@pytest.mark.parametrize(
    ("own", "session", "red"),
    [("", "warn", False), ("", "fail", True), ("warn", "fail", False)],
)
def test_a_gate_that_fails_alone_has_the_policy_of_inconclusive_gates(
    own, session, red
):
    """The corrected outcome decides the exit code too: of many gates near their
    thresholds one would fail alone in most sessions."""
    gate = Gate(id="a", task="t", inconclusive=own, source=Place(Path("g.yaml"), 1))
    failing = Verdict(
        gate=gate, outcome=RED, p_fails=0.03, reason="worse", policy=own or session
    )
    passing = [verdict(str(i), 1.0, Outcome.PASSED) for i in range(4)]
    first, *_ = corrected([failing, *passing])
    assert first.outcome is OPEN
    assert first.fails_alone
    assert first.is_red is red
