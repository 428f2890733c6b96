"""``evaluate()`` beside pytest: the same suite, numbers, verdicts and files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_evals import OptionError, TaskFileError, TaskOptions, evaluate

CONFTEST = """
import pytest
from pytest_evals import Response

class Knowing:
    '''Knows all answers but two, and says what identifies it.'''

    name = "knowing"
    fingerprint = {"knows": "all but two"}
    info = {"kind": "stand-in"}
    asked = 0

    def answer(self, requests):
        for position, request in enumerate(requests):
            self.asked += 1
            number = request.prompt.split()[-1].removesuffix("?")
            yield position, Response(text="no" if number in "34" else f"a{number}")

@pytest.fixture(scope="session")
def eval_model():
    return Knowing()
"""
names: dict[str, object] = {}
exec(CONFTEST, names)
Knowing = names["Knowing"]


@pytest.fixture
def both(suite, monkeypatch):
    """Two tasks, their group, and gates in all places."""
    monkeypatch.chdir(suite.pytester.path)
    base = {"metric": "exact_match", "baseline": "main", "max_drop": 0.05}
    suite.task("quiz", gates=["exact_match >= 0.5", {**base, "over": "run"}])
    suite.task("zoo", tag="animals")
    suite.knows(tasks=("quiz", "zoo"))
    suite.group("all", task=["quiz", "zoo"], gates=["exact_match >= 0.9"])
    (suite.evals / "gates.yaml").write_text("gates: [zoo/exact_match >= 0.75]\n")
    return suite


def numbers(results):
    return {
        name: {key: value for key, value in found.items() if "," in key}
        for name, found in results["results"].items()
    }


def verdicts(results):
    return {
        (gate["task"], gate["id"]): (gate["outcome"], gate["reason"], gate["change"])
        for gate in results["gates"]
    }


def test_a_script_finds_what_pytest_finds(both):
    both.run("evals", "--evals-save=main")
    both.pytester.makeconftest(CONFTEST)
    both.run("evals", "--evals-json=by_pytest.json", model=None)
    by_pytest = json.loads(Path("by_pytest.json").read_text())

    model = Knowing()
    result = evaluate("evals", model, folder=".evals")
    newest = max(
        Path(".evals/runs").iterdir(), key=lambda path: path.stat().st_mtime_ns
    )
    by_script = json.loads((newest / "results.json").read_text())

    assert numbers(by_script) == numbers(by_pytest)
    assert verdicts(by_script) == verdicts(by_pytest)
    outcomes = {key: outcome for key, (outcome, *_) in verdicts(by_script).items()}
    assert outcomes == {
        ("quiz", "exact_match"): "passed",
        ("quiz", "exact_match-vs-main"): "failed",
        ("zoo", "exact_match"): "passed",
        ("all", "exact_match"): "failed",
    }
    assert by_script["task_hashes"] == by_pytest["task_hashes"]
    assert by_script["node_ids"] == by_pytest["node_ids"]
    assert model.asked == 0, "what pytest has stored is used"
    assert result.reuse.n_reused == 20
    assert sorted(one.name for one in newest.iterdir()) == [
        "results.json",
        "samples_quiz.jsonl",
        "samples_zoo.jsonl",
    ]


def test_without_a_folder_nothing_is_written(both):
    model = Knowing()
    result = evaluate(["evals/quiz.yaml"], model)
    assert model.asked == 10
    assert not Path(".evals").exists()
    (failed,) = [one for one in result.verdicts if one.gate.baseline]
    assert "no baseline called 'main'" in failed.reason


def test_options_and_gates_of_the_call_count(both):
    options = TaskOptions(limit=2)
    result = evaluate(
        Path("evals/zoo.yaml"), Knowing(), options, gates=["zoo/exact_match >= 0.2"]
    )
    assert [len(task.records) for task in result.tasks] == [2]
    assert [one.outcome.value for one in result.verdicts] == ["passed", "passed"]
    assert result.options["limit"] == 2


def test_a_spec_opens_a_model(both):
    result = evaluate("evals/zoo.yaml", "scripted:answers.jsonl")
    assert result.model == "scripted:answers.jsonl"
    assert result.tasks[0].metrics[0].estimate.value == 1.0


def test_tasks_that_are_loaded_already_are_taken(both):
    task = evaluate("evals/zoo.yaml", Knowing()).tasks[0].task
    assert evaluate(task, Knowing()).tasks[0].n_correct == 8


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("evals/quizz.yaml", "evals/quizz.yaml: there is no such file"),
        ("answers.jsonl", "answers.jsonl: this is no eval file"),
        ("evals/gates.yaml", "evals/gates.yaml: this is no eval file"),
    ],
)
def test_what_is_no_suite_is_told(both, source, told):
    with pytest.raises(TaskFileError, match=told):
        evaluate(source, Knowing())


def test_a_gate_that_names_nothing_is_told(both):
    with pytest.raises(OptionError, match="no task called 'zooo'; did you mean 'zoo'"):
        evaluate("evals", Knowing(), gates=["zooo/exact_match >= 1"])
    with pytest.raises(OptionError, match="no kind of model called 'hff'"):
        evaluate("evals", "hff:gpt2")
