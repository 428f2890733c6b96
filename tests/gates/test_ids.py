"""Ids of gates."""

from pathlib import Path

import pytest

from pytest_evals.errors import Place, TaskFileError
from pytest_evals.gates.read.entry import read_gate
from pytest_evals.gates.read.text import with_unique_ids


def gate(entry, line=1, task="arc"):
    return read_gate(entry, task=task, source=Place(Path("arc.yaml"), line))


def ids(*entries):
    return [one.id for one in with_unique_ids(gate(entry) for entry in entries)]


def test_gates_on_one_metric_are_numbered_in_order():
    assert ids("acc >= 0.5", "f1 >= 0.5", "acc <= 0.9", "acc > 0") == [
        "acc",
        "f1",
        "acc#2",
        "acc#3",
    ]


def test_a_custom_id_is_kept_and_default_ids_are_numbered():
    own = {"metric": "f1", "min": 0, "id": "acc"}
    assert ids("acc >= 0.5", own) == ["acc#2", "acc"]
    own = {"metric": "f1", "min": 0, "id": "acc#2"}
    assert ids("acc >= 0.5", "acc >= 0.6", own) == ["acc", "acc#3", "acc#2"]


def test_two_equal_custom_ids_are_an_error_with_both_places():
    entry = {"metric": "acc", "min": 0.5, "id": "floor"}
    with pytest.raises(TaskFileError) as caught:
        with_unique_ids([gate(entry, 3), gate(entry, 7)])
    assert str(caught.value) == (
        "arc.yaml:7: gate id 'floor' is taken by the gate at arc.yaml:3\n"
        "  fix: id: floor-2"
    )


def test_tasks_do_not_share_ids():
    gates = [gate("acc >= 0.5"), gate("acc >= 0.5", task="piqa")]
    assert [one.id for one in with_unique_ids(gates)] == ["acc", "acc"]


def test_a_default_id_is_a_valid_part_of_a_node_id():
    entry = {"metric": "my metric[0]::x", "min": 0.5}
    assert ids(entry) == ["my-metric-0--x"]
