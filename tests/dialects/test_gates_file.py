"""``gates.yaml`` next to a suite."""

from decimal import Decimal

import pytest

from pytest_evals.core.gate import Bound
from pytest_evals.dialects.gates_section.suite_gates import load_gates
from pytest_evals.errors import TaskFileError


@pytest.fixture
def gates(tmp_path, monkeypatch):
    """A function that reads a gates file."""
    monkeypatch.chdir(tmp_path)

    def load(text):
        (tmp_path / "gates.yaml").write_text(text)
        return load_gates(tmp_path / "gates.yaml")

    return load


def test_gates_name_their_tasks(gates):
    read = gates(
        "gates:\n"
        "  - gsm8k/exact_match,strict-match >= 0.5\n"
        "  - {task: arc, metric: acc, min: 0.7}\n"
        "  - {metric: arc/acc, max: 0.9}\n"
        "  - {task: arc, must_pass: [x]}\n"
    )

    assert [(g.task, g.metric, g.filter, g.id) for g in read] == [
        ("gsm8k", "exact_match", "strict-match", "exact_match,strict-match"),
        ("arc", "acc", "", "acc"),
        ("arc", "acc", "", "acc#2"),
        ("arc", "", "", "must-pass"),
    ]
    assert read[0].bounds == (Bound(">=", Decimal("0.5")),)
    assert [str(g.source) for g in read] == [f"gates.yaml:{n}" for n in (2, 3, 4, 5)]


def test_all_problems_of_a_gates_file_are_reported(gates):
    with pytest.raises(TaskFileError) as error:
        gates("defaults: {confidenc: 0.9}\ngate: []\ngates:\n  - acc >= 0.5\n")

    lines = str(error.value).splitlines()
    assert lines[0] == (
        "gates.yaml:1: defaults has no key 'confidenc'; did you mean 'confidence'?"
    )
    assert (
        "gates.yaml:2: a gates file has no key 'gate'; did you mean 'gates'?" in lines
    )
    assert lines[2].startswith("gates.yaml:4: gate 'acc >= 0.5' does not name its task")


def test_a_gates_file_without_gates_is_an_error(gates):
    with pytest.raises(TaskFileError) as error:
        gates("")

    assert str(error.value) == (
        'gates.yaml: the file has no gates\n  fix: gates: ["my_task/acc >= 0.75"]'
    )


def test_defaults_are_for_all_gates_that_count_noise(gates):
    exact, noisy, own = gates(
        "defaults: {confidence: 0.9, family: none}\n"
        "gates:\n"
        "  - t/acc >= 0.5\n"
        "  - {task: t, metric: acc, min: 0.5, over: population}\n"
        "  - {task: g, metric: acc, baseline: main, max_drop: 0, confidence: 0.99}\n"
    )
    assert (exact.confidence, exact.family) == (0.95, "")
    assert (noisy.confidence, noisy.family) == (0.9, "none")
    assert (own.task, own.confidence, own.family) == ("g", 0.99, "none")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gates: [a/acc >= 0.5]\ngates: [b/acc >= 0.5]\n", "gates.yaml:2: 'gates' is"),
        ("gates:\n- {metric: a/acc, min: 0.5, min: 0.1}\n", "gates.yaml:2: 'min' is"),
    ],
)
def test_a_key_that_is_given_twice_is_an_error(gates, text, message):
    with pytest.raises(TaskFileError) as caught:
        gates(text)
    assert str(caught.value).startswith(f"{message} a duplicate key")
