"""Gates whose baseline is a model that runs in the same command."""

from __future__ import annotations

import json

import pytest

from pytest_evals import evaluate

GATE = {
    "metric": "exact_match",
    "baseline": "scripted:reference.jsonl",
    "max_drop": 0.1,
    "over": "run",
}
ID = "exact_match-vs-scripted:reference.jsonl"
COUNTING = """
    import json, os, pytest
    from pytest_evals import Response
    from pytest_evals.models.registry import open_model, parse_spec

    def note(*words):
        with open("log.jsonl", "a") as log:
            print(json.dumps([os.getpid(), *words]), file=log)

    class Counted:
        def __init__(self, spec):
            self.name = spec
            self._model = open_model(parse_spec(spec))
            note("open", spec)

        def answer(self, requests):
            note("answer", self.name, len(requests))
            return self._model.answer(requests)

        def close(self):
            note("close", self.name)

    def pytest_evals_open_model(spec, config):
        return Counted(spec)
"""


@pytest.fixture
def both(suite):
    """The reference model is wrong on q1; the tested one on q1, q2 and q3."""
    suite.task("quiz", gates=[GATE])
    suite.knows(wrong=[1])
    (suite.pytester.path / "answers.jsonl").rename("reference.jsonl")
    suite.knows(wrong=[1, 2, 3])
    return suite


def log_of(suite):
    lines = (suite.pytester.path / "log.jsonl").read_text().splitlines()
    return [json.loads(line)[1:] for line in lines]


@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["plain", "n2"])
def test_a_model_as_baseline_runs_on_the_same_documents(both, workers):
    result = both.run("evals", *workers)
    assert result.ret == 1
    (gate,) = both.results()["gates"]
    change = gate["change"]
    assert (gate["id"], gate["outcome"]) == (ID, "failed")
    assert (change["before"], change["now"], change["n"]) == (0.9, 0.7, 10)
    assert (change["gained"], change["lost"]) == (0, 2)
    assert sorted(gate["documents"]) == ["q2", "q3"]
    result.stdout.fnmatch_lines(
        [
            "reference model: scripted:reference.jsonl (10 documents)",
            "*exact_match 0.700 vs scripted:reference.jsonl 0.900: -20.00 is not *",
            "*worse than in scripted:reference.jsonl*",
            "*drop <= 0.1 vs scripted:reference.jsonl*FAILED*",
        ]
    )
    assert len([*both.pytester.path.glob(".evals/runs/*")]) == 1


def test_the_reference_model_is_closed_before_the_tested_model_opens(both):
    both.task("other", gates=[GATE])
    both.pytester.makeconftest(COUNTING)
    both.run("evals")
    assert log_of(both)[:4] == [
        ["open", "scripted:reference.jsonl"],
        ["answer", "scripted:reference.jsonl", 20],
        ["close", "scripted:reference.jsonl"],
        ["open", "scripted:answers.jsonl"],
    ]


@pytest.mark.slow
def test_responses_of_the_reference_model_are_stored(suite, tiny_model_path):
    """With --evals-cache=only, a missing response would be an error."""
    tiny = f"hf:{tiny_model_path},device=cpu"
    gate = {**GATE, "baseline": f"{tiny},dtype=bfloat16", "id": "same"}
    suite.task("quiz", gates=[gate], generation_kwargs={"max_gen_toks": 4})
    first = suite.run("evals", model=tiny)
    assert first.ret == 0
    plan = suite.run("evals", "--evals-plan", model=tiny)
    plan.stdout.fnmatch_lines(["quiz (hf:*  *10  *10  *10"])
    second = suite.run("evals", "--evals-cache=only", model=tiny)
    assert second.ret == 0
    assert second.parseoutcomes()["passed"] == first.parseoutcomes()["passed"]


def test_documents_without_a_score_make_the_gate_invalid(both):
    path = both.pytester.path
    (path / "answers.jsonl").rename("tested.jsonl")
    both.knows(errors=[4, 7])
    (path / "answers.jsonl").rename("reference.jsonl")
    result = both.run("evals", model="scripted:tested.jsonl")
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "invalid: the reference model scripted:reference.jsonl has no score for 2 "
            "of 10 documents (q4, q7): the server is down"
        ]
    )


@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["plain", "n2"])
@pytest.mark.parametrize(
    ("baseline", "why"),
    [
        ("scripted:absent.jsonl", "absent.jsonl: cannot be read: No such file *"),
        ("hf:./absent", "no folder './absent'; give a folder with a config.json*"),
        ("hf:gpt2,dtyp=float32", "*dtyp*"),
    ],
)
def test_an_invalid_reference_model_is_a_usage_error_before_the_first_request(
    both, baseline, why, workers
):
    path = both.task("quiz", gates=[{**GATE, "baseline": baseline, "id": "reference"}])
    result = both.run("evals", *workers)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    line = path.read_text().splitlines().index("gates:") + 2
    where = f"evals/quiz.yaml:{line}: the reference model of gate 'reference': {why}"
    result.stderr.fnmatch_lines([f"ERROR: {where}"])
    assert not (both.pytester.path / ".evals").exists()


def test_the_plan_counts_requests_of_the_reference_model(both):
    result = both.run("evals", "--evals-plan")
    result.stdout.fnmatch_lines(
        ["quiz  *10  *10 *", "quiz (scripted:reference.jsonl)  *10  *10 *"]
    )


def test_the_reference_model_does_not_run_for_a_skipped_gate(both):
    result = both.run("evals", "-k", "q1 or q2 or exact_match")
    result.stdout.no_fnmatch_line("reference model:*")
    result.stdout.fnmatch_lines(["gates: 1 skipped"])


def test_a_stored_baseline_takes_precedence_over_a_reference_model(both):
    run = both.pytester.path / "scripted:reference.jsonl"
    both.run("evals", "--evals-save-baseline=main")
    (both.pytester.path / ".evals" / "baselines" / "main").rename(run)
    result = both.run("evals")
    assert result.ret == 0
    result.stdout.no_fnmatch_line("reference model:*")


def test_the_reference_model_runs_all_documents_of_a_group(both):
    both.task("other")
    both.task("quiz")
    both.group("pair", task=["quiz", "other"], gates=[GATE])
    rules = (both.pytester.path / "reference.jsonl").read_text()
    more = rules.replace("quiz", "other")
    (both.pytester.path / "reference.jsonl").write_text(rules + more)
    both.knows(wrong=[1], tasks=["quiz", "other"])
    result = both.run("evals")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        ["reference model: scripted:reference.jsonl (20 documents)"]
    )


@pytest.mark.slow
def test_hooks_below_the_rootdir_apply_with_workers_too(both):
    conftest = both.evals / "deeper" / "conftest.py"
    conftest.parent.mkdir()
    for name in ("quiz.yaml", "quiz.jsonl"):
        (both.evals / name).rename(conftest.parent / name)
    conftest.write_text(
        "from dataclasses import replace\n"
        "def pytest_evals_score(record, task):\n"
        "    scores = task.score(record)\n"
        "    return [replace(one, value=1.0, correct=True) for one in scores]\n"
    )
    for workers in ((), ("-n2",)):
        result = both.run("evals", *workers)
        assert result.ret == 0
        result.stdout.fnmatch_lines(
            ["*quiz *1.000 *vs scripted:reference.jsonl  passed*"]
        )


@pytest.mark.slow
def test_hooks_of_another_folder_are_refused_with_workers(both):
    other = both.pytester.mkdir("other")
    (other / "conftest.py").write_text(
        "def pytest_evals_score(record, task): return None\n"
    )
    result = both.run("evals", "other", "-n2")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*with -n, hooks in *other/conftest.py do not apply*"])


def test_evaluate_runs_reference_models_as_pytest_does(both):
    found = evaluate(both.evals, "scripted:answers.jsonl")
    (verdict,) = found.verdicts
    assert verdict.outcome == "failed"
    assert (verdict.change.before, verdict.change.now) == (0.9, 0.7)
    assert not (both.pytester.path / ".evals").exists()


def test_the_gate_is_named_after_the_model_without_its_arguments(both):
    gate = {**GATE, "baseline": "hf:org/name,dtype=bfloat16"}
    both.task("quiz", gates=[gate])
    result = both.run("evals", "--collect-only", "-q")
    assert "evals/quiz.yaml::quiz::exact_match-vs-name" in result.outlines


def test_each_model_is_run_once_for_all_its_gates(both):
    again = {**GATE, "max_drop": 0.3, "id": "loose"}
    own = {**GATE, "baseline": "scripted:answers.jsonl", "id": "own"}
    both.task("quiz", gates=[GATE, again, own])
    result = both.run("evals")
    found = {gate["id"]: gate["outcome"] for gate in both.results()["gates"]}
    assert found == {ID: "failed", "loose": "passed", "own": "passed"}
    lines = [line for line in result.outlines if line.startswith("reference model:")]
    assert lines == [
        "reference model: scripted:reference.jsonl (10 documents)",
        "reference model: scripted:answers.jsonl (10 documents)",
    ]


def test_early_stopping_does_not_stop_tasks_with_a_reference_model(both):
    rows = [{"id": f"r{i}", "question": f"n{i}", "answer": "a"} for i in range(300)]
    both.task("quiz", gates=[GATE])
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (both.evals / "quiz.jsonl").write_text(text)
    (both.pytester.path / "reference.jsonl").write_text('{"text": "a"}\n')
    (both.pytester.path / "answers.jsonl").write_text('{"text": "b"}\n')
    result = both.run("evals", "--evals-stop=curtail")
    result.stdout.fnmatch_lines(["*quiz runs to the end: *the reference model *"])
    assert result.parseoutcomes() == {"wrong": 300, "failed": 1}
