"""Gates on two baselines: the last release and an older one, so that small drops do not
accumulate."""

from __future__ import annotations

import json

import pytest

GATE = {"metric": "exact_match", "baseline": "main", "max_drop": 0.15, "over": "run"}
OLDER = {**GATE, "baseline": "v1", "max_drop": 0.25}


def results(suite):
    runs = suite.pytester.path.glob(".evals/runs/*/results.json")
    newest = max(runs, key=lambda path: path.stat().st_mtime_ns)
    return {one["id"]: one for one in json.loads(newest.read_text())["gates"]}


def release(suite, wrong):
    """Save a run in which the first few answers are wrong; 10 points each."""
    suite.knows(wrong=range(wrong))
    return suite.run("evals", "--evals-save-baseline=main")


@pytest.fixture
def both(suite):
    """A suite with both baselines, where all answers are correct."""
    suite.task("quiz", gates=[GATE, OLDER])
    suite.run("evals", "--evals-save-baseline=v1")
    assert release(suite, 0).ret == 0
    return suite


@pytest.mark.slow
def test_an_older_baseline_limits_the_sum_of_small_drops(both):
    assert release(both, 1).ret == 0
    second = release(both, 2)
    assert second.ret == 0
    second.stdout.fnmatch_lines(
        [
            "baseline: .evals/baselines/main",
            "quiz::exact_match: 20.00 points below v1 (1.000 -> 0.800; allowed: drop "
            "<= 0.25)",
        ]
    )
    third = release(both, 3)
    third.stdout.fnmatch_lines(
        ["*'main' is not saved: gate quiz::exact_match-vs-v1 failed; *"]
    )
    found = {name: gate["outcome"] for name, gate in results(both).items()}
    assert found == {"exact_match-vs-main": "passed", "exact_match-vs-v1": "failed"}


@pytest.mark.slow
def test_the_distance_of_a_better_run_is_printed_too(both):
    release(both, 2)
    both.run("evals", "--evals-save-baseline=v1", "--evals-save-failed")
    release(both, 0).stdout.fnmatch_lines(["quiz::*: 20.00 points above v1 (*"])


@pytest.mark.slow
def test_either_of_two_baselines_can_be_saved_first(suite):
    suite.task("quiz", gates=[GATE, OLDER])
    suite.run("evals", "--evals-save-baseline=main")
    suite.run("evals", "--evals-save-baseline=v1")
    assert suite.run("evals").ret == 0
