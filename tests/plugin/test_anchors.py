"""A gate with an anchor: a second baseline, so that small drops do not accumulate."""

from __future__ import annotations

import json

import pytest

GATE = {"metric": "exact_match", "baseline": "main", "max_drop": 0.15, "over": "run"}
ANCHOR = {"baseline": "v1", "max_drop": 0.25}


def results(suite):
    runs = suite.pytester.path.glob(".evals/runs/*/results.json")
    newest = max(runs, key=lambda path: path.stat().st_mtime_ns)
    return {one["id"]: one for one in json.loads(newest.read_text())["gates"]}


def release(suite, wrong):
    """Save a run in which the first few answers are wrong; 10 points each."""
    suite.knows(wrong=range(wrong))
    return suite.run("evals", "--evals-save-baseline=main")


@pytest.fixture
def anchored(suite):
    """A suite with both baselines, where all answers are correct."""
    suite.task("quiz", gates=[{**GATE, "anchor": ANCHOR}])
    suite.run("evals", "--evals-save-baseline=v1")
    assert release(suite, 0).ret == 0
    return suite


def test_the_anchor_limits_the_sum_of_small_drops(anchored):
    assert release(anchored, 1).ret == 0
    second = release(anchored, 2)
    assert second.ret == 0
    second.stdout.fnmatch_lines(
        [
            "baseline: .evals/baselines/main",
            "quiz::exact_match: 20.00 points below v1 (1.000 -> 0.800; allowed: drop "
            "<= 0.25)",
        ]
    )
    third = release(anchored, 3)
    third.stdout.fnmatch_lines(
        ["*'main' is not saved: gate quiz::exact_match-vs-v1 failed; *"]
    )
    found = {name: gate["outcome"] for name, gate in results(anchored).items()}
    assert found == {"exact_match-vs-main": "passed", "exact_match-vs-v1": "failed"}


def test_a_better_run_passes_the_anchor_gate(anchored):
    release(anchored, 2)
    anchored.run("evals", "--evals-save-baseline=v1", "--evals-save-failed")
    release(anchored, 0).stdout.fnmatch_lines(["quiz::*: 20.00 points above v1 (*"])


def test_an_anchor_without_a_margin_uses_the_gates_margin(suite):
    suite.task("quiz", gates=[{**GATE, "id": "kept", "anchor": "v1"}])
    suite.run("evals", "--evals-save-baseline=v1")
    suite.run("evals", "--evals-save-baseline=main")
    suite.knows(wrong=[1, 2])
    suite.run("evals")
    found = results(suite)
    assert [*found] == ["kept", "kept-vs-v1"]
    bars = [found[name]["change"]["bar"] for name in found]
    assert bars == pytest.approx([-0.15, -0.15])


def test_gates_files_may_contain_anchors(suite):
    entry = f"{{task: quiz, {json.dumps({**GATE, 'anchor': ANCHOR})[1:-1]}}}"
    (suite.evals / "gates.yaml").write_text(f"gates:\n  - {entry}\n")
    suite.run("evals", "--evals-save-baseline=v1")
    assert [*results(suite)] == ["exact_match-vs-main", "exact_match-vs-v1"]


def test_either_of_two_baselines_can_be_saved_first(suite):
    suite.task("quiz", gates=[{**GATE, "anchor": ANCHOR}])
    suite.run("evals", "--evals-save-baseline=main")
    suite.run("evals", "--evals-save-baseline=v1")
    assert suite.run("evals").ret == 0


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({**GATE, "anchor": {**ANCHOR, "max_dorp": 1}}, "*'max_dorp'*'max_drop'?*"),
        ({**GATE, "anchor": {"max_drop": 0.1}}, "*the anchor needs a baseline*"),
        ({**GATE, "anchor": {**ANCHOR, "recovery": 0.9}}, "*an anchor has one margin*"),
        (
            {**GATE, "anchor": {**ANCHOR, "max_drop": -1}},
            "*max_drop must be 0 or more*",
        ),
        ({**GATE, "anchor": "main"}, "*the anchor is the gate's own baseline, 'main'*"),
        ({**GATE, "anchor": [1]}, "*the name of a baseline or a mapping, not*1*"),
        ({"metric": "exact_match", "min": 0.5, "anchor": "v1"}, "*has no baseline*"),
    ],
)
def test_an_invalid_anchor_is_refused_with_its_line(suite, keys, message):
    path = suite.task("quiz", gates=[keys])
    lines = path.read_text().splitlines()
    number = lines.index("gates:") + 2  # counted from 1, and the entry is below
    result = suite.run("evals")
    assert result.ret != 0
    found = [line for line in result.outlines if f"quiz.yaml:{number}" in line]
    assert found, result.outlines
    result.stdout.fnmatch_lines([message])


def test_assert_gate_refuses_an_anchor(suite):
    suite.pytester.makepyfile(
        """
        from pytest_evals import assert_gate

        def test_it(eval_results):
            keys = {"baseline": "main", "max_drop": 0.1, "anchor": "v1"}
            assert_gate("quiz/exact_match", eval_results, **keys)
        """
    )
    result = suite.run("evals", suite.pytester.path)
    result.stdout.fnmatch_lines(["*anchor is a key of gates in files*"])
