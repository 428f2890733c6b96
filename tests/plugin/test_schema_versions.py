"""Stored files of a newer version, in whole runs."""

from __future__ import annotations

import json

import pytest

from pytest_evals.store.schema import SCHEMAS

NEWER = SCHEMAS["results"].current + 1
WHY = f"*results.json' has schema version {NEWER}; this version of *reads version*"
FIX = "*update pytest-model-evals*"


@pytest.fixture
def newer(suite):
    """A suite with a baseline and a run that a newer version has written."""
    gate = {"metric": "exact_match", "baseline": "main", "max_drop": 0.5}
    suite.task("quiz", gates=[gate])
    suite.knows(wrong=[1])
    assert suite.run("evals", "--evals-save-baseline=main").ret == 0
    for path in suite.pytester.path.glob(".evals/*/*/results.json"):
        results = json.loads(path.read_text())
        path.write_text(json.dumps({**results, "schema_version": NEWER}))
    return suite


@pytest.mark.parametrize(
    "options",
    [
        ["--evals-compare=main"],
        ["--evals-save-baseline=main"],
        ["--evals-only=wrong"],
        ["--evals-only=wrong", "-n2"],
    ],
)
def test_a_newer_run_is_a_usage_error_before_anything_runs(newer, options):
    before = (newer.pytester.path / ".evals/baselines/main/results.json").read_bytes()
    result = newer.run("evals", *options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (result.stderr if result.errlines else result.stdout).fnmatch_lines([WHY, FIX])
    after = (newer.pytester.path / ".evals/baselines/main/results.json").read_bytes()
    assert after == before


def test_a_gate_against_a_newer_baseline_is_invalid(newer):
    result = newer.run("evals")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert result.parseoutcomes() == {"passed": 9, "wrong": 1, "failed": 1}
    result.stdout.fnmatch_lines(["invalid: *has schema version*"])
    result.stdout.fnmatch_lines([FIX])
    result.stdout.no_fnmatch_line("*Create it: --evals-save-baseline=main*")
