"""Evals of the same name in several folders of a repository."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_evals import evaluate

EVAL = """\
prompt: "{{{{q}}}}"
rows:
  - {{id: x, q: "{word} one", target: "{word} one"}}
  - {{id: y, q: "{word} two", target: "{target}"}}
"""
TASK = """\
task: quiz
dataset_path: json
dataset_kwargs: {{data_files: {{test: quiz.jsonl}}}}
test_split: test
output_type: generate_until
doc_to_text: "{{{{q}}}}"
doc_to_target: "{word}"
metric_list: [{{metric: exact_match}}]
"""
GROUP = """\
group: bench
task: [quiz, {{task: own, include: quiz.yaml}}]
aggregate_metric_list: [{{metric: exact_match}}]
gates: [exact_match >= {least}]
"""


@pytest.fixture
def services(pytester: pytest.Pytester) -> pytest.Pytester:
    """Two services with an eval ``support``; orders answers one of two correctly."""
    for name, target in (("billing", "billing two"), ("orders", "wrong")):
        folder = pytester.mkdir(name)
        text = EVAL.format(word=name, target=target)
        (folder / "support.yaml").write_text(text)
    return pytester


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return pytester.runpytest("--model=scripted:echo", *arguments)


def results(pytester: pytest.Pytester) -> dict:
    (newest,) = sorted(pytester.path.glob(".evals/runs/*/results.json"))[-1:]
    return json.loads(newest.read_text())


def test_each_name_gets_its_folder_and_node_ids_stay(services):
    found = run(services, "-v")
    found.assert_outcomes(passed=3)  # and 1 wrong
    found.stdout.fnmatch_lines(
        ["billing/support.yaml::support?x? *", "*::support?y? *"]
    )
    stored = results(services)
    assert stored["node_ids"] == {
        "billing/support": "billing/support.yaml::support",
        "orders/support": "orders/support.yaml::support",
    }
    assert stored["results"]["billing/support"]["exact,none"] == 1.0
    assert stored["results"]["orders/support"]["exact,none"] == 0.5


@pytest.mark.slow
def test_workers_and_deselection_give_the_same_names(services):
    run(services, "-n", "2", "--deselect", "orders/support.yaml")
    stored = results(services)
    assert stored["results"]["billing/support"]["exact,none"] == 1.0
    assert "support" not in stored["results"]


def test_gates_of_a_file_are_for_the_tasks_of_its_folder(services):
    Path("billing/gates.yaml").write_text("gates: [support/exact >= 1]")
    Path("orders/gates.yaml").write_text("gates: [support/exact >= 0.9]")
    found = run(services)
    found.assert_outcomes(passed=4, failed=1)
    found.stdout.fnmatch_lines(["FAILED orders/support.yaml::support::exact*"])
    gates = {gate["task"]: gate["outcome"] for gate in results(services)["gates"]}
    assert gates == {"billing/support": "passed", "orders/support": "failed"}


@pytest.mark.parametrize("place", ["a gates file", "an option"])
def test_a_gate_above_the_folders_names_the_folder(services, place):
    def gated(gate: str) -> pytest.RunResult:
        if place == "an option":
            return run(services, f"--evals-gate={gate}")
        Path("gates.yaml").write_text(f"gates: [{gate}]")
        return run(services)

    refused = gated("support/exact >= 0.9")
    assert refused.ret == pytest.ExitCode.USAGE_ERROR
    refused.stderr.fnmatch_lines(
        [
            "*2 tasks are called 'support': billing/support, orders/support",
            "*fix: name one of them: billing/support",
        ]
    )
    gated("orders/support/exact >= 0.9").assert_outcomes(passed=3, failed=1)


@pytest.mark.parametrize(
    ("first", "second", "name"),
    [("billing", ".", "billing/support"), (".", "billing", "support")],
)
def test_baselines_are_found_by_file(services, first, second, name):
    run(services, first, "--evals-save-baseline=v1")
    run(services, second, "--evals-compare=v1")
    compared = results(services)["comparison"]
    changes = {one["task"]: one["before"] for one in compared["metrics"]}
    assert changes == {name: 1.0}


def test_another_file_is_no_baseline_of_a_task(services):
    run(services, "orders", "--evals-save-baseline=v1")
    found = run(services, "billing", "--evals-compare=v1")
    found.stdout.fnmatch_lines(["*support: new, not in v1*"])


def test_options_select_names_with_and_without_folders(services):
    def selected(pattern: str) -> set[str]:
        run(services, f"--evals-tasks={pattern}")
        return {*results(services)["node_ids"].values()}

    billing, orders = (f"{one}/support.yaml::support" for one in ("billing", "orders"))
    assert selected("support") == {billing, orders}
    assert selected("orders/support") == {orders}
    assert selected("b*/support") == {billing}


@pytest.mark.parametrize("place", [".", "orders"])
def test_tests_of_results_name_the_folder(services, place):
    Path("orders/test_results.py").write_text(
        "def test_exact(eval_results):\n"
        "    assert eval_results('orders/support')['exact'].value == 0.5\n"
    )
    run(services, place).assert_outcomes(passed=4 if place == "." else 2)


def test_last_failed_documents_keep_their_task(services):
    run(services, "--evals-strict")
    found = run(services, "--lf", "--evals-strict", "-v")
    found.stdout.fnmatch_lines(["orders/support.yaml::support?y? *"])
    found.assert_outcomes(failed=1)


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["", "-n 2"])
def test_groups_of_the_same_name_have_the_tasks_of_their_folder(pytester, workers):
    for name, least in (("billing", 1), ("orders", 0.5)):
        folder = pytester.mkdir(name)
        (folder / "quiz.jsonl").write_text(json.dumps({"q": name}))
        (folder / "quiz.yaml").write_text(TASK.format(word="billing"))
        (folder / "group.yaml").write_text(GROUP.format(least=least))
    found = run(pytester, *workers)
    stored = results(pytester)
    assert stored["group_subtasks"] == {
        f"{one}/bench": [f"{one}/quiz", f"{one}/bench::own"]
        for one in ("billing", "orders")
    }
    assert stored["groups"]["billing/bench"]["exact_match,none"] == 1.0
    assert stored["groups"]["orders/bench"]["exact_match,none"] == 0.0
    found.stdout.fnmatch_lines(["FAILED orders/group.yaml::bench::exact_match*"])
    assert stored["node_ids"]["orders/bench::own"] == "orders/group.yaml::bench::own"


def test_options_select_task_files_of_lm_eval_by_folder(pytester):
    for name in ("billing", "orders"):
        folder = pytester.mkdir(name)
        (folder / "quiz.jsonl").write_text(json.dumps({"q": name}))
        (folder / "quiz.yaml").write_text(TASK.format(word=name))
    run(pytester, "--evals-tasks=orders/quiz")
    assert results(pytester)["node_ids"] == {"quiz": "orders/quiz.yaml::quiz"}
    found = run(pytester, "--evals-tasks=shipping/quiz")
    found.stderr.fnmatch_lines(["*unknown task, group or tag 'shipping/quiz'*"])


def test_evaluate_names_them_by_folder(services):
    found = evaluate(["billing", "orders"], model="scripted:echo")
    assert {one.task.name for one in found.tasks} == {
        "billing/support",
        "orders/support",
    }


def test_identical_files_of_two_folders_are_two_tasks(services):
    Path("orders/support.yaml").write_bytes(Path("billing/support.yaml").read_bytes())
    found = evaluate(["billing", "orders"], model="scripted:echo")
    assert [len(one.records) for one in found.tasks] == [2, 2]
