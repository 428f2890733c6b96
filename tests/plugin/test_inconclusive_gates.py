"""Inconclusive verdicts, from the task file to exit code, screen, JUnit and
results.json."""

import xml.etree.ElementTree as ET

import pytest

GATE = {"metric": "exact_match", "min": 0.7, "over": "population"}


@pytest.mark.parametrize(
    ("policy", "ret", "outcomes", "workers"),
    [
        ("warn", 0, {"passed": 8, "wrong": 2, "inconclusive": 1}, []),
        ("warn", 0, {"passed": 8, "wrong": 2, "inconclusive": 1}, ["-n2"]),
        ("fail", 1, {"passed": 8, "wrong": 2, "failed": 1}, []),
        ("pass", 0, {"passed": 9, "wrong": 2}, []),
    ],
)
def test_the_policy_decides_the_outcome_of_inconclusive_gates(
    suite, policy, ret, outcomes, workers
):
    suite.task("quiz", gates=[GATE])
    suite.knows(wrong=[1, 2])
    option = f"--evals-inconclusive={policy}"
    done = suite.run("evals", option, "--junitxml=junit.xml", *workers)
    assert done.ret == ret
    assert done.parseoutcomes() == outcomes
    done.stdout.fnmatch_lines(["*not enough documents to tell: *0.800, 90% CI*"])
    (gate,) = suite.results()["gates"]
    assert (gate["outcome"], gate["over"]) == ("inconclusive", "population")
    assert gate["interval"]["low"] < 0.7 < gate["interval"]["high"]
    assert gate["interval"]["policy"] == policy
    tree = ET.parse(suite.pytester.path / "junit.xml")
    (case,) = [c for c in tree.iter("testcase") if c.get("name") == "exact_match"]
    properties = {p.get("name"): p.get("value") for p in case.iter("property")}
    assert properties["verdict"] == "inconclusive"
    assert (case.find("failure") is not None) == bool(ret)


def test_a_gate_may_set_its_policy(suite):
    suite.task("quiz", gates=[{**GATE, "inconclusive": "fail"}])
    suite.knows(wrong=[1, 2])
    assert suite.run("evals").ret == 1


def test_an_unknown_policy_is_a_usage_error(suite):
    done = suite.run("evals", "--evals-inconclusive=ignore", model="scripted:break")
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines(
        ["*--evals-inconclusive=ignore: expected warn, fail or pass"]
    )


def test_a_group_gate_includes_the_flip_rates_of_its_tasks(suite):
    suite.task("other")
    suite.knows(tasks=("quiz", "other"), wrong=[1, 2])
    suite.group("all", task=["quiz", "other"], gates=[GATE])
    done = suite.run("evals")
    assert done.ret == 0
    done.stdout.fnmatch_lines(
        ["all::exact_match inconclusive, not enough documents to tell: *"]
    )


def test_a_gate_without_power_is_a_warning_at_collection(suite):
    gates = [{"metric": "exact_match", "min": 0.9, "over": "population"}]
    suite.task("quiz", gates=gates)
    result = suite.run("evals", "--collect-only", model=None)
    result.stdout.fnmatch_lines(
        [
            "evals: warning: quiz::exact_match: not even 10 correct answers would make "
            "it pass; that needs 29 documents"
        ]
    )


@pytest.mark.skipif(pytest.version_tuple < (9, 1), reason="--max-warnings is newer")
@pytest.mark.parametrize("workers", [(), ("-n2",)])
def test_an_inconclusive_gate_counts_as_a_pytest_warning(suite, workers):
    suite.task("quiz", gates=[GATE])
    suite.knows(wrong=[1, 2])
    done = suite.run("evals", "--max-warnings=0", "-Werror", *workers)
    assert done.ret == 6  # pytest's MAX_WARNINGS_ERROR
    assert done.parseoutcomes()["warnings"] == 1
    done.stdout.fnmatch_lines(
        [
            "evals/quiz.yaml::quiz::exact_match",
            "*evals/quiz.yaml:*: PytestWarning: quiz: *: inconclusive: not enough *",
            "*maximum allowed warnings exceeded: 1 > 0",
        ]
    )
    assert suite.run("evals", "--max-warnings=1", *workers).ret == 0
    policy = "--evals-inconclusive=pass"
    assert suite.run("evals", "--max-warnings=0", policy, *workers).ret == 0
