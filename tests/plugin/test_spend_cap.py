"""Runs that reach a spend cap: scored documents, stored responses, and the exit
code."""

from __future__ import annotations

import json
import re

import pytest

import pytest_evals

pytestmark = pytest.mark.slow


GATE = {"gates": ["exact_match >= 0.05"]}
PYTHON = """
def respond(prompt: str) -> str:
    with open("calls", "a") as calls:
        calls.write(prompt + "\\n")
    return "a0"

respond.version = "1"
"""


@pytest.mark.parametrize(
    "arguments", [[], ["-n2"], ["-v"], ["--evals-fast-path=off"], ["-x"]]
)
def test_the_rest_is_not_scored_and_no_gate_passes(suite, server, arguments):
    spec, prompts = server
    suite.task("quiz", **GATE)
    result = suite.run("evals", *arguments, model=f"{spec},max_requests=4")
    words = result.stdout.str()
    assert len(prompts) == 4
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    last = next(line for line in words.splitlines() if "1 failed, " in line)
    assert "6 not scored" in last
    assert "skipped" not in last
    assert "invalid: 4 of 10 documents were run; " in words
    assert re.search("documents: .* wrong, 6 not scored", words)
    assert "\ntokens: " not in words  # the server reports none
    assert "responses: 4 sent" in words
    assert "spend cap: 4 of 10 documents scored; 4 responses stored" in words
    assert "to continue (stored responses are reused): pytest --model=openai:" in words
    results = suite.results()
    assert results["partial"] == (
        "not all requests were sent: spend cap of gpt reached: max_requests=4"
    )
    assert results["exit_code"] == 1
    assert results["n_requests"] == 4
    assert [gate["outcome"] for gate in results["gates"]] == ["invalid"]


def test_a_gate_over_one_unsent_document_of_one_worker_is_invalid(suite, server):
    """Gates are judged when the last document is done, before its worker ends."""
    spec, prompts = server
    suite.task("quiz", **GATE)
    suite.run("evals", "-n2", model=f"{spec},max_requests=9")
    assert len(prompts) == 9
    (gate,) = suite.results()["gates"]
    assert gate["outcome"] == "invalid"
    assert "9 of 10 documents were run; " in gate["reason"]
    assert gate["reason"].endswith("spend cap of gpt reached: max_requests=9")


@pytest.mark.parametrize("workers", ["0", "2"])
def test_other_tests_are_not_among_the_documents_of_the_summary(suite, server, workers):
    spec, _ = server
    suite.pytester.makepyfile(test_plain="def test_plain(): pass")
    model = f"{spec},max_requests=4"
    result = suite.run("evals", "test_plain.py", "-n", workers, model=model)
    assert "spend cap: 4 of 10 documents scored; 4 responses" in result.stdout.str()


def test_the_same_command_continues_until_all_is_scored(suite, server):
    spec, prompts = server
    suite.task("quiz", **GATE)
    codes = [
        int(suite.run("evals", model=f"{spec},max_requests=4").ret) for _ in range(4)
    ]
    assert codes == [1, 1, 0, 0]
    assert len(prompts) == len(set(prompts)) == 10


def test_stored_responses_are_scored_after_the_cap(suite, server):
    spec, _ = server
    last = "evals/quiz.yaml::quiz[q9]"
    assert suite.run(last, model=spec).ret == 0
    result = suite.run("evals", "-v", model=f"{spec},max_requests=2")
    result.stdout.fnmatch_lines(["*quiz[[]q5[]] NOT SCORED*", f"*{last[-9:-1]}*WRONG*"])
    result.assert_outcomes(passed=1)


def test_an_incomplete_run_without_gates_fails_and_is_not_a_baseline(suite, server):
    spec, _ = server
    result = suite.run(
        "evals", "--evals-save-baseline=v1", model=f"{spec},max_requests=4"
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert not (suite.pytester.path / ".evals/baselines/v1").exists()


def test_a_cap_that_is_not_reached_changes_nothing(suite, server):
    spec, prompts = server
    suite.task("quiz", **GATE)
    result = suite.run("evals", model=f"{spec},max_requests=10")
    assert result.ret == 0
    assert len(prompts) == 10
    assert "spend cap" not in result.stdout.str()
    assert not suite.results()["partial"]


def test_a_function_is_not_called_more_often_than_the_cap(suite):
    suite.pytester.makepyfile(app=PYTHON)
    suite.pytester.syspathinsert()
    suite.task("quiz", **GATE)
    result = suite.run("evals", model="python:app:respond,max_requests=3")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "spend cap: 3 of 10 documents scored" in result.stdout.str()
    assert len((suite.pytester.path / "calls").read_text().splitlines()) == 3


def test_evaluate_returns_a_partial_result(suite, server):
    spec, prompts = server
    path = suite.task("quiz", **GATE)
    result = pytest_evals.evaluate(
        path,
        model=f"{spec},max_requests=4",
        folder=str(suite.pytester.path / "kept"),
    )
    assert len(prompts) == 4
    assert "spend cap of gpt reached: max_requests=4" in result.partial
    assert [verdict.outcome.value for verdict in result.verdicts] == ["invalid"]
    assert result.tasks[0].n_missing == 6
    (stored,) = (suite.pytester.path / "kept").glob("runs/*/results.json")
    assert json.loads(stored.read_text())["partial"] == result.partial


def test_repetitions_that_are_not_sent_measure_nothing(suite, server):
    spec, prompts = server
    result = suite.run(
        "evals", "--evals-repeatability=2", model=f"{spec},max_requests=15"
    )
    assert len(prompts) == 15
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    words = result.stdout.str()
    assert "5 of 10 documents were repeated" in words
    assert "partial run: not all requests were sent: spend cap of gpt" in words


@pytest.mark.parametrize("gates", ["", ", gates=['exact >= 0.05']"])
def test_a_unit_test_with_documents_that_are_not_sent_fails(suite, server, gates):
    spec, prompts = server
    path = suite.pytester.makepyfile(f"""
        def test_it(evals):
            rows = [{{"a": i}} for i in range(6)]
            evals(rows, prompt="x {{{{a}}}}", target="a0", score="exact"{gates})
    """)
    result = suite.run(str(path), model=f"{spec},max_requests=3")
    result.assert_outcomes(failed=1)
    assert "3 documents were not run; not all requests were sent" in result.stdout.str()
    assert len(prompts) == 3


def test_a_cap_of_the_judge_leaves_documents_without_a_score(suite, server):
    spec, prompts = server
    (suite.evals / "quiz.yaml").unlink()
    (suite.evals / "judged.yaml").write_text(
        'prompt: "{{a}}?"\nscore: {judge: Is it right?}\ngates: ["judge >= 0.5"]\n'
        "rows: [{a: 1}, {a: 2}, {a: 3}, {a: 4}]\n"
    )
    judge = f"--evals-judge={spec},max_requests=1"
    result = suite.run("evals", judge, model="scripted:first")
    assert len(prompts) == 1
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "3 not scored" in result.stdout.str()
    assert "spend cap of gpt reached: max_requests=1" in result.stdout.str()
