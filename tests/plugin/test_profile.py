"""Profiles of options: the release profile asks for more evidence than the default."""

from __future__ import annotations

import json

import pytest

POPULATION = [
    "exact_match >= 0.5",
    {"metric": "exact_match", "min": 0.5, "id": "mapping"},
    {"metric": "exact_match", "min": 0.5, "confidence": 0.9, "id": "confident"},
]
OWN = [
    {"metric": "exact_match", "min": 0.5, "over": "run", "id": "own"},
    {"metric": "exact_match", "min": 0.5, "noise": 0.1, "id": "noisy"},
]


def release(suite, *lines):
    suite.pytester.makeini("\n".join(["[pytest]", "evals_profile = release", *lines]))


def gates(suite):
    return {one["id"]: one for one in suite.results()["gates"]}


@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["plain", "n2"])
def test_release_thresholds_default_to_over_population(suite, workers):
    release(suite)
    suite.task("quiz", gates=[*POPULATION, *OWN])
    suite.knows(wrong=[1])
    result = suite.run("evals", *workers, "--evals-gate=quiz/exact_match >= 0.4")
    result.stdout.fnmatch_lines(
        [
            "evals: profile release: inconclusive gates fail; thresholds without "
            "'over' count as over: population; all documents (no limit, no sample); "
            "all documents of a baseline are compared"
        ]
    )
    found = {name: one["over"] for name, one in gates(suite).items()}
    assert found == {
        "exact_match": "population",
        "mapping": "population",
        "confident": "population",
        "own": "run",
        "noisy": "benchmark",
        "exact_match#2": "population",
    }


def test_the_default_profile_has_no_effect(suite):
    suite.task("quiz", gates=POPULATION[:1])
    result = suite.run("evals", "--evals-profile=default")
    result.stdout.no_fnmatch_line("evals: profile*")
    assert gates(suite)["exact_match"]["over"] == "run"


def test_release_gates_fail_if_inconclusive_by_default(suite):
    """7 of 10: the exact 95% limits are 0.393 and 0.913, so 0.7 is between them."""
    suite.task("quiz", gates=["exact_match >= 0.7"])
    suite.knows(wrong=[1, 2, 3])
    assert suite.run("evals").ret == 0
    failed = suite.run("evals", "--evals-profile=release")
    assert failed.ret == pytest.ExitCode.TESTS_FAILED
    gate = {"metric": "exact_match", "min": 0.7, "inconclusive": "warn"}
    suite.task("quiz", gates=[{**gate, "over": "population"}])
    assert suite.run("evals", "--evals-profile=release").ret == 0


def test_assert_gate_uses_the_release_profile(suite):
    suite.pytester.makepyfile(
        """
        from pytest_evals import assert_gate

        def test_it(eval_results):
            assert_gate("quiz/exact_match >= 0.7", eval_results)
        """
    )
    suite.knows(wrong=[1, 2, 3])
    arguments = ("evals", suite.pytester.path)
    assert suite.run(*arguments).ret == 0
    assert suite.run(*arguments, "--evals-profile=release").ret == 1


@pytest.mark.parametrize(
    ("option", "why"),
    [
        ("limit=3", "a release is judged over all documents"),
        ("sample=3", "a release is judged over all documents"),
        ("inconclusive=warn", "inconclusive gates fail a release"),
        ("inconclusive=pass", "inconclusive gates fail a release"),
    ],
)
def test_options_that_weaken_a_release_are_refused_with_the_reason(suite, option, why):
    release(suite)
    result = suite.run("evals", f"--evals-{option}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [
            f"ERROR: --evals-{option} and --evals-profile=release contradict each "
            f"other: {why}; give one",
            "  --evals-profile is set by evals_profile in *",
        ]
    )
    assert suite.run("evals", f"--evals-{option}", "--evals-profile=default").ret == 0


def test_the_profile_of_an_ini_file_refuses_a_limit_there(suite):
    release(suite, "evals_limit = 3")
    result = suite.run("evals")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["  --evals-limit is set by evals_limit in *"])


def test_an_unknown_profile_is_refused_with_the_closest_name(suite):
    result = suite.run("evals", "--evals-profile=relase")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["*--evals-profile=relase: unknown profile; did you mean 'release'?"]
    )


def test_a_profile_can_be_set_in_pytest_toml(suite):
    (suite.pytester.path / "tox.ini").unlink()
    (suite.pytester.path / "pytest.toml").write_text(
        '[pytest]\nevals_profile = "release"\n'
    )
    suite.run("evals").stdout.fnmatch_lines(["evals: profile release: *"])
    (path,) = suite.pytester.path.glob(".evals/runs/*/results.json")
    assert json.loads(path.read_text())["options"]["profile"] == "release"
