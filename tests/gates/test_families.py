"""Red verdicts of many gates. Adjusted values are Holm's, worked out by hand."""

from pathlib import Path

import pytest

from pytest_evals.core.gate import Gate, Outcome, Verdict
from pytest_evals.errors import Place
from pytest_evals.gates.verdicts.families import corrected

RED, OPEN = Outcome.FAILED, Outcome.INCONCLUSIVE


def verdict(name, p, outcome=RED, family="holm"):
    gate = Gate(id=name, task="t", family=family, source=Place(Path("g.yaml"), 1))
    return Verdict(gate=gate, outcome=outcome, p_value=p, reason="worse")


def test_a_red_verdict_that_chance_explains_among_many_is_open():
    found = corrected(
        [verdict("a", 0.001), verdict("b", 0.03), verdict("c", 0.6, OPEN)]
    )
    assert [v.p_adjusted for v in found] == pytest.approx([0.003, 0.06, 0.6])
    assert [v.outcome for v in found] == [RED, OPEN, OPEN]
    assert found[1].reason == (
        "worse, but not for sure among so many gates: p = 0.030 alone, 0.060 after "
        "Holm over 3 gates"
    )
    assert found[0].notes == ("p = 0.001 alone, 0.003 after Holm over 3 gates",)


def test_families_are_apart_and_a_gate_without_one_stands_alone():
    found = corrected(
        [
            verdict("a", 0.03),
            verdict("b", 0.03, family="x"),
            verdict("c", 0.03, family=""),
        ]
    )
    assert [v.outcome for v in found] == [RED] * 3
    assert [v.p_adjusted for v in found] == [0.03, 0.03, None]


def test_gates_that_count_no_noise_are_outside_of_all_families():
    found = corrected([verdict("a", 0.03), verdict("b", None), verdict("c", None)])
    assert [v.outcome for v in found] == [RED] * 3


def test_nothing_green_turns():
    given = [verdict(str(i), 1.0, Outcome.PASSED) for i in range(20)]
    assert [v.outcome for v in corrected(given)] == [Outcome.PASSED] * 20
