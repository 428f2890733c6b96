"""Sessions that test a function of an application with ``--model=python:…``."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path

import pytest

from pytest_evals import evaluate

ROOT = Path(__file__).parents[2]
WORKERS = pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["alone", "workers"])
APP = """
from pytest_evals import Response


def respond(prompt):
    number = prompt.rstrip("?").split()[-1]
    with open("calls.txt", "a") as log:
        print(number, file=log)
    if number == "3":
        raise LookupError("no document about 3")
    return Response(text=f"a{number}", steps=[{"tool": "search", "query": number}])
"""
STUCK = """
import asyncio
import os


async def respond(prompt):
    open(f"ready-{os.getpid()}", "w").close()
    await asyncio.sleep(600)


def block(prompt):
    open(f"ready-{os.getpid()}", "w").close()
    import time

    time.sleep(600)
"""


def calls(suite):
    path = suite.pytester.path / "calls.txt"
    return sorted(path.read_text().split()) if path.exists() else []


@pytest.fixture
def app(suite, request):
    """The suite with the module of an application, under a unique name: the tests run
    in one process."""
    name = f"app_{abs(hash(request.node.nodeid))}"
    suite.pytester.makepyfile(**{name: APP})
    return suite, f"python:{name}:respond"


@WORKERS
def test_a_function_of_an_application_is_tested_like_a_model(app, workers):
    suite, model = app
    result = suite.run("evals", *workers, model=f"{model},concurrency=2")
    result.assert_outcomes(passed=9, errors=1)
    name = model.removeprefix("python:")
    file = f"{name.partition(':')[0]}.py"
    result.stdout.fnmatch_lines(
        [
            f"{name}: LookupError: no document about 3 ({file}:9)",
            f"*{name}: no version is set, so responses are neither stored nor *",
        ]
    )
    rows = {row["id"]: row for row in suite.samples()}
    assert rows["q4"]["steps"] == [[{"tool": "search", "query": "4"}]]
    assert calls(suite) == [*"0123456789"]


def test_without_a_version_every_session_calls_the_function_again(app):
    suite, model = app
    for _ in range(2):
        suite.run("evals", model=model)
    assert calls(suite) == sorted([*"0123456789"] * 2)


@pytest.mark.parametrize("by", ["spec", "attribute"])
def test_responses_of_a_version_are_reused_with_their_steps(app, by):
    suite, model = app
    if by == "spec":
        model = f"{model},version=2026-11-01"
    else:
        file = suite.pytester.path / f"{model.split(':')[1]}.py"
        file.write_text(f"{file.read_text()}\nrespond.version = lambda: '2026-11-01'\n")
    suite.run("evals", model=model)
    again = suite.run("evals", model=f"{model},concurrency=3")
    again.assert_outcomes(passed=9, errors=1)
    assert calls(suite) == sorted([*"0123456789", "3"])
    assert "no version is set" not in again.stdout.str()
    newest = max(suite.pytester.path.glob(".evals/runs/*/samples_quiz.jsonl"))
    assert newest.read_text().count('"tool"') == 9


def test_another_version_sends_all_requests_again(app):
    suite, model = app
    suite.run("evals", model=f"{model},version=1")
    suite.run("evals", model=f"{model},version=2")
    assert calls(suite) == sorted([*"0123456789"] * 2)


def test_a_task_that_needs_log_probabilities_is_refused_before_anything_runs(app):
    suite, model = app
    suite.task(
        "ranks",
        output_type="multiple_choice",
        doc_to_choice=["a0", "a1"],
        doc_to_target="a0",
        metric_list=[{"metric": "acc"}],
    )
    result = suite.run("evals", model=model)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*returns texts and no log-probabilities: ranks*"])
    assert calls(suite) == []


def test_a_function_that_does_not_exist_is_a_usage_error(app):
    suite, model = app
    result = suite.run("evals", model=model.replace("respond", "respnd"))
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*has no 'respnd'; did you mean 'respond'?"])


def test_collecting_imports_nothing(app):
    suite, model = app
    file = suite.pytester.path / f"{model.split(':')[1]}.py"
    file.write_text("open('calls.txt', 'w').write('imported')\nraise OSError\n")
    result = suite.run("evals", "--collect-only", "-q", model=model)
    assert result.ret == pytest.ExitCode.OK
    assert calls(suite) == []


def test_evaluate_takes_a_function_of_an_application(app, monkeypatch):
    suite, model = app
    monkeypatch.chdir(suite.pytester.path)
    result = evaluate("evals/quiz.yaml", model=model)
    assert result.tasks[0].metrics[0].estimate.value == 1.0
    assert calls(suite) == [*"0123456789"]


def test_the_application_of_the_page_answers(suite):
    text = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
    text = text[text.index("## `python:`") :]
    for language, file in ("python", "my_app.py"), ("ini", "pytest.ini"):
        block = re.search(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        (suite.pytester.path / file).write_text(block[1])
    result = suite.run("evals", model=None)
    result.stdout.fnmatch_lines(["documents: 10 wrong", "responses: 10 sent"])
    again = suite.run("evals", model=None)
    again.stdout.fnmatch_lines(["responses: 10 reused from the store*"])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["respond", "block"])
def test_ctrl_c_ends_a_session_whose_calls_do_not_return(suite, name):
    suite.pytester.makepyfile(stuck_app=STUCK)
    process = suite.start("evals", f"--model=python:stuck_app:{name}")
    began = time.monotonic()
    os.kill(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert time.monotonic() - began < 15
    assert process.returncode == pytest.ExitCode.INTERRUPTED, output
