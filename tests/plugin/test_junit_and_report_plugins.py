"""JUnit files and other plugins' reports: their content about documents and gates."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

import pytest

WORKERS = pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["plain", "n2"])


@pytest.fixture
def mixed(suite):
    """Correct, wrong and failed documents; a gate; and an ordinary test."""
    suite.task("quiz", gates=["exact_match >= 0.95"])
    suite.knows(wrong=[2], errors=[0, 4])
    suite.pytester.makepyfile(test_plain="def test_plain(): pass")
    return suite


def junit(suite, *arguments):
    suite.run("--junitxml=junit.xml", *arguments)
    (found,) = ET.parse(suite.pytester.path / "junit.xml").getroot().iter("testsuite")
    cases = {case.get("name"): case for case in found.iter("testcase")}
    assert int(found.get("tests")) == len(list(found.iter("testcase"))) == len(cases)
    broken = {
        name
        for name, case in cases.items()
        if case.find("failure") is not None or case.find("error") is not None
    }
    assert int(found.get("failures")) + int(found.get("errors")) == len(broken)
    assert broken == {"quiz[q0]", "quiz[q4]", "exact_match"}
    return {
        name: {p.get("name"): p.get("value") for p in case.iter("property")}
        for name, case in cases.items()
    }


@WORKERS
def test_junit_has_gates_and_documents_that_failed(mixed, workers):
    found = junit(mixed, *workers)
    assert set(found) == {"test_plain", "quiz[q0]", "quiz[q4]", "exact_match"}
    gate = found["exact_match"]
    assert gate["verdict"] == "failed"
    assert gate["metric"] == "exact_match,none"
    assert found["quiz[q4]"] == {"verdict": "error"}


@WORKERS
@pytest.mark.parametrize("what", ["gates", "docs"])
def test_junit_and_terminal_agree_on_errors(mixed, workers, what):
    """The first document of a file takes another code path than later ones."""
    option = f"--evals-junit={what}"
    done = mixed.run("--junitxml=junit.xml", option, *workers)
    outcomes = done.parseoutcomes()
    assert (outcomes["errors"], outcomes["failed"]) == (2, 1)
    (found,) = ET.parse(mixed.pytester.path / "junit.xml").getroot().iter("testsuite")
    assert (found.get("errors"), found.get("failures")) == ("2", "1")
    tags = {
        case.get("name"): {node.tag for node in case} & {"error", "failure"}
        for case in found.iter("testcase")
    }
    broken = {name: list(found) for name, found in tags.items() if found}
    assert broken == {
        "quiz[q0]": ["error"],
        "quiz[q4]": ["error"],
        "exact_match": ["failure"],
    }
    (error,) = (c.find("error") for c in found if c.get("name") == "quiz[q4]")
    assert error.get("message").startswith("the server is down")


@WORKERS
def test_junit_has_all_documents_on_request(mixed, workers):
    mixed.pytester.makeini("[pytest]\nevals_junit = docs\n")
    found = junit(mixed, *workers)
    assert len(found) == 12
    properties = {"metric": "exact_match,none", "score": "1.0", "answer": "a3"}
    assert found["quiz[q3]"] == {"verdict": "correct", **properties}
    assert found["quiz[q2]"]["verdict"] == "wrong"
    assert found["quiz[q9]"]["score"] == "1.0"


def test_an_unknown_junit_value_is_a_usage_error(suite):
    result = suite.run("evals", "--evals-junit=all")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--evals-junit=all: expected gates or docs"])


@WORKERS
def test_json_report_has_each_document_with_its_score(mixed, workers):
    pytest.importorskip("pytest_jsonreport")
    plugins = ("-p", "pytest_metadata.plugin", "-p", "pytest_jsonreport.plugin")
    mixed.run(*plugins, "--json-report", "--json-report-file=report.json", *workers)
    report = json.loads((mixed.pytester.path / "report.json").read_text())
    found = {test["nodeid"]: test for test in report["tests"]}
    assert len(found) == 12
    wrong = found["evals/quiz.yaml::quiz[q2]"]
    assert wrong["outcome"] == "wrong"
    assert {"score": 0.0} in wrong["user_properties"]
    assert found["evals/quiz.yaml::quiz[q4]"]["outcome"] == "error"
    assert report["summary"]["passed"] == 8
    assert report["summary"]["wrong"] == 1


@WORKERS
def test_report_log_has_each_document_with_its_score(mixed, workers):
    pytest.importorskip("pytest_reportlog")
    mixed.run("-p", "pytest_reportlog.plugin", "--report-log=log.jsonl", *workers)
    lines = (mixed.pytester.path / "log.jsonl").read_text().splitlines()
    calls = {
        row["nodeid"]: row
        for row in map(json.loads, lines)
        if row.get("$report_type") == "TestReport" and row["when"] == "call"
    }
    assert len(calls) == 12
    row = calls["evals/quiz.yaml::quiz[q2]"]
    assert (row["evals_word"], row["outcome"]) == ("wrong", "passed")
    assert ["score", 0.0] in row["user_properties"]
    assert row.get("evals_record") is None


@WORKERS
def test_html_of_pytest_html_has_a_row_for_each_document(mixed, workers):
    pytest.importorskip("pytest_html")
    plugins = ("-p", "pytest_metadata.plugin", "-p", "pytest_html.plugin")
    mixed.run(*plugins, "--html=report.html", "--self-contained-html", *workers)
    text = (mixed.pytester.path / "report.html").read_text()
    assert all(f"evals/quiz.yaml::quiz[q{i}]" in text for i in range(10))
    assert "evals/quiz.yaml::quiz::exact_match" in text
