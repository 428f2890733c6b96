"""Gates on kl of generated answers, in whole runs."""

from __future__ import annotations

import json
import math
import sqlite3
from contextlib import closing

import pytest

P, Q = {"a": 0.8, "b": 0.2}, {"a": 0.7, "b": 0.3}
KL = 0.8 * math.log(0.8 / 0.7) + 0.2 * math.log(0.2 / 0.3)


def knows(suite, p, *, tops=True):
    """Answers of one token with these probabilities."""
    top = [["a", {name: math.log(value) for name, value in p.items()}]]
    with open(suite.pytester.path / "answers.jsonl", "w") as file:
        for i in range(10):
            rule = {"prompt": f"quiz {i}?", "text": f"a{i}"}
            if tops:
                rule["top_logprobs"] = top
            file.write(json.dumps(rule) + "\n")


@pytest.fixture
def gated(suite):
    gate = {"metric": "kl", "baseline": "main", "max": 0.5}
    suite.task("quiz", gates=[gate], generation_kwargs={"max_gen_toks": 8})
    knows(suite, P)
    return suite


def newest(suite):
    runs = suite.pytester.path.glob(".evals/runs/*")
    return max(runs, key=lambda path: path.stat().st_mtime_ns)


@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["plain", "n2"])
def test_a_run_is_compared_with_the_stored_distributions(gated, workers):
    assert gated.run("evals", "--evals-save-baseline=main").ret == 0
    knows(gated, Q)
    result = gated.pytester.runpytest(
        "evals", "--model=scripted:answers.jsonl", *workers
    )
    assert result.ret == 0
    (gate,) = json.loads((newest(gated) / "results.json").read_text())["gates"]
    assert gate["value"] == pytest.approx(KL, abs=1e-5)
    assert gate["notes"][0].startswith("a lower bound of kl")
    result.stdout.fnmatch_lines(["*a lower bound of kl*"])


def test_distributions_are_requested_only_for_tasks_with_divergence_gates(gated):
    gated.task("other")
    with open(gated.pytester.path / "answers.jsonl", "a") as file:
        top = [["a", {"a": -0.1}]]
        for i in range(10):
            rule = {"prompt": f"other {i}?", "text": f"a{i}", "top_logprobs": top}
            file.write(json.dumps(rule) + "\n")
    gated.run("evals", "--evals-save-baseline=main")
    for task, has in (("quiz", True), ("other", False)):
        (path,) = newest(gated).glob(f"samples_{task}*.jsonl")
        row = json.loads(path.read_text().splitlines()[0])
        arguments = row["arguments"]["gen_args_0"]["arg_1"]
        assert ("top_logprobs" in row, "top_logprobs" in arguments) == (has, has)


def test_a_baseline_without_distributions_is_reported_with_the_fix(gated):
    knows(gated, P, tops=False)
    gated.run("evals", "--evals-save-baseline=main")
    knows(gated, P)
    result = gated.run("evals")
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        ["*'main' has no top log-probabilities of generated tokens*"]
    )


def test_a_model_without_distributions_is_reported_with_the_fix(gated):
    gated.run("evals", "--evals-save-baseline=main")
    knows(gated, P, tops=False)
    result = gated.run("evals")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*the model returns no top log-probabilities*"])


def test_stored_responses_keep_distributions(gated, tiny_model_path):
    """The second run opens no model."""
    for _ in range(2):
        result = gated.run(
            "evals",
            "--evals-save-baseline=main",
            model=f"hf:{tiny_model_path},device=cpu",
        )
        assert result.ret == 0
    path = gated.pytester.path / ".evals/responses.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT response FROM responses").fetchall()
    stored = [json.loads(row) for (row,) in rows]
    assert len(stored) == 10 and all(one["top_logprobs"] for one in stored)
    result = gated.run("evals", model=f"hf:{tiny_model_path},device=cpu")
    (gate,) = json.loads((newest(gated) / "results.json").read_text())["gates"]
    assert gate["value"] == 0
    assert result.ret == 0
