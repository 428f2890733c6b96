"""A model that works in a separate thread is stopped like any other."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from pytest_evals.run import batches
from pytest_evals.store.responses import stored_since

CONFTEST = """
import os
import signal
import time

from pytest_evals import Generate
from pytest_evals.models.registry import open_model, parse_spec

STOPS, INTERRUPTS = {stops}, {interrupts}


def pytest_evals_open_model(spec, config):
    model = open_model(parse_spec(spec))
    list(model.answer([Generate("a", max_tokens=1)]))  # tries out its way of writing
    model.works_ahead = True
    n_passes = 0

    def look(module, args, kwargs):
        nonlocal n_passes
        n_passes += 1
        if INTERRUPTS and n_passes == 17:
            os.kill(os.getpid(), signal.SIGINT)
        if STOPS and n_passes > 17:
            time.sleep(0.2)  # until the thread is notified that the run stops

    body = model._engine._model.base_model
    body.register_forward_pre_hook(look, with_kwargs=True)
    return model
"""
N = 10


def runs_of(folder: Path) -> list[tuple[dict, int]]:
    """Results of each run, the first first, and the number of scored documents."""
    found = []
    for path in sorted(
        folder.glob(".evals/runs/*"), key=lambda p: p.stat().st_mtime_ns
    ):
        samples = path / "samples_quiz.jsonl"
        n = len(samples.read_text().splitlines()) if samples.exists() else 0
        found.append((json.loads((path / "results.json").read_text()), n))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [[], ["-x", "--evals-strict"]])
def test_responses_received_before_a_stop_are_not_requested_again(
    suite, tiny_model_path, arguments, monkeypatch
):
    """Ctrl-C arrives while the thread is at about its fourth document, with the next
    window already encoded; ``-x`` stops at the first, whose answer is wrong."""
    monkeypatch.setattr(batches, "FIRST", 6)
    suite.task("quiz", generation_kwargs={"until": ["zzz"], "max_gen_toks": 5})
    suite.pytester.makeconftest(CONFTEST.format(stops=True, interrupts=not arguments))
    command = [f"--model=hf:{tiny_model_path},device=cpu,batch_size=1", "evals"]
    suite.pytester.runpytest(*command, *arguments, no_reraise_ctrlc=True)
    assert not [t for t in threading.enumerate() if t.name == "evals-model"]
    ((stopped, n_scored),) = runs_of(suite.pytester.path)
    assert stopped["partial"]
    assert 0 < n_scored < N
    suite.pytester.makeconftest(CONFTEST.format(stops=False, interrupts=False))
    suite.pytester.runpytest(*command)
    _, (whole, n_all) = runs_of(suite.pytester.path)
    assert n_all == N
    assert n_scored <= whole["n_reused"] < N
    suite.pytester.runpytest(*command, "--evals-cache=off")
    assert runs_of(suite.pytester.path)[-1][0]["results"] == whole["results"]


APP = """
import os
import time


def respond(prompt):
    time.sleep(0.05)
    with open("answered", "a") as stream:
        stream.write(prompt + "\\n")
    return "a"


respond.version = "1"
"""
HOLDING = """
import time


def pytest_runtest_logreport(report):
    if report.when == "call":
        time.sleep(0.3)
        raise KeyboardInterrupt
"""
IGNORED = """
import time
import weakref


def interrupted(reference):
    raise KeyboardInterrupt


def pytest_runtest_logreport(report):
    if report.when == "call":
        callback = weakref.ref(lambda: None, interrupted)  # Python ignores exceptions
        time.sleep(0.3)
"""
SCORING = """
import time


def pytest_evals_score(record, task):
    time.sleep(0.3)
    raise {error}
"""
TASK = """
prompt: "{{{{q}}}}"
target: a
rows: [{rows}]
score: exact
"""


@pytest.fixture
def held(pytester):
    """Runs 60 documents of an application with a conftest; returns the numbers of
    answers and of stored responses."""
    rows = ", ".join(f"{{id: r{i}, q: q{i}}}" for i in range(60))
    pytester.makefile(".yaml", held=TASK.format(rows=rows))
    pytester.makepyfile(app=APP)
    pytester.syspathinsert()

    def run(conftest: str, *arguments: str) -> tuple[int, int]:
        pytester.makeconftest(conftest)
        command = ["--model=python:app:respond,concurrency=4", "held.yaml"]
        pytester.runpytest_subprocess(*command, *arguments)
        answered = (pytester.path / "answered").read_text().splitlines()
        return len(answered), stored_since(pytester.path / ".evals", 0)

    return run


@pytest.mark.parametrize(
    ("conftest", "arguments"),
    [
        (HOLDING, ()),
        pytest.param(HOLDING, ("-n2",), marks=pytest.mark.slow),
        (IGNORED, ()),
    ],
    ids=["alone", "workers", "in a callback"],
)
def test_answers_that_arrive_while_a_hook_holds_the_main_thread_are_stored(
    held, conftest, arguments
):
    n_answered, n_stored = held(conftest, *arguments)
    assert n_answered == n_stored
    assert 4 < n_answered < 60


@pytest.mark.slow
@pytest.mark.parametrize(
    ("error", "arguments"),
    [
        ("KeyboardInterrupt", ()),
        ("ValueError", ("-x",)),
    ],
)
def test_answers_that_arrive_while_a_document_is_scored_are_stored(
    held, error, arguments
):
    n_answered, n_stored = held(SCORING.format(error=error), *arguments)
    assert n_answered == n_stored
    assert 4 < n_answered < 60


STOPPED_BETWEEN_LINES = """
def stop():
    raise KeyboardInterrupt


# A signal can reach Python at an instruction for which the code has no line.
stop.__code__ = stop.__code__.replace(co_linetable=b"")


def pytest_runtest_logstart(nodeid):
    if nodeid.endswith("5]"):
        stop()
"""


@pytest.mark.slow
def test_an_interrupt_between_two_lines_is_reported_as_any_other(suite):
    suite.task("quiz")
    suite.pytester.makeconftest(STOPPED_BETWEEN_LINES)
    result = suite.pytester.runpytest_subprocess("--model=scripted:first", "evals")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert "Traceback" not in result.stderr.str() + result.stdout.str()
    result.stdout.fnmatch_lines(["*KeyboardInterrupt*"])
