"""A gate with an anchor is read as two gates."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_evals.dialects.gates_section.anchors import read_gates
from pytest_evals.errors import Place, TaskFileError

ENTRY = {"metric": "acc", "baseline": "main", "max_drop": 0.02, "confidence": 0.9}


def read(**keys):
    return read_gates({**ENTRY, **keys}, task="t", source=Place(Path("t.yaml"), 7))


@pytest.mark.parametrize(
    ("anchor", "margin"),
    [
        ("v1", "drop <= 0.02"),
        (2, "drop <= 0.02"),
        ({"baseline": "v1"}, "drop <= 0.02"),
        ({"baseline": "v1", "max_drop": "5%"}, "drop <= 5%"),
        ({"baseline": "v1", "recovery": 0.9}, "recovery >= 90%"),
    ],
)
def test_the_second_gate_is_on_the_anchor_with_its_margin_or_that_of_the_gate(
    anchor, margin
):
    usual, anchored = read(anchor=anchor)
    assert (usual.baseline, str(usual.margin)) == ("main", "drop <= 0.02")
    assert anchored.baseline in ("v1", "2")
    assert str(anchored.margin) == margin
    assert (usual.is_anchor, anchored.is_anchor) == (False, True)
    assert usual.confidence == anchored.confidence == 0.9


@pytest.mark.parametrize(
    ("keys", "ids"),
    [
        ({"anchor": "v1"}, ["acc-vs-main", "acc-vs-v1"]),
        ({"anchor": "v1", "id": "kept"}, ["kept", "kept-vs-v1"]),
        ({"anchor": "runs/old run", "id": "kept"}, ["kept", "kept-vs-old-run"]),
    ],
)
def test_both_gates_have_ids_of_their_own(keys, ids):
    assert [gate.id for gate in read(**keys)] == ids


def test_alarms_on_single_tasks_are_on_the_last_baseline_only():
    usual, anchored = read(anchor="v1", each={"max_drop": 0.1})
    assert usual.each is not None
    assert anchored.each is None


def test_an_entry_without_an_anchor_is_one_gate():
    assert len(read()) == 1


def test_an_error_has_its_line_and_a_fix():
    with pytest.raises(TaskFileError) as caught:
        read(anchor={"max_drop": 0.1})
    (problem,) = caught.value.problems
    assert "t.yaml:7" in str(problem)
    assert "anchor: {baseline: v1" in problem.fix
