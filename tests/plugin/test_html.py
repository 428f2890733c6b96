"""``--evals-html``: when the report is written, and how failures are reported."""

from __future__ import annotations

import base64
import json
import re
import zlib

import pytest


def block(path, name):
    page = path.read_text(encoding="utf-8")
    found = re.search(rf'<script type="text/plain" id="{name}">([^<]*)</script>', page)
    return json.loads(zlib.decompress(base64.b64decode(found[1])))


def documents(path):
    (task,) = block(path, "index")["tasks"]
    return dict(zip(task["id"], task["states"], strict=True))


@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_the_page_has_gates_and_documents(suite, workers):
    suite.task("quiz", gates=["exact_match >= 0.95"])
    suite.knows(wrong=[3], errors=[7])
    result = suite.run("evals", workers, "--evals-html=out/report.html")
    assert result.ret == 1
    path = suite.pytester.path / "out" / "report.html"
    result.stdout.fnmatch_lines(["report: out/report.html"])
    assert documents(path) == {
        f"q{i}": "w" if i == 3 else "e" if i == 7 else "r" for i in range(10)
    }
    (gate,) = block(path, "facts")["gates"]
    assert gate["outcome"] in ("failed", "invalid")
    assert gate["node"] == "evals/quiz.yaml::quiz::exact_match"


def test_the_page_shows_changes_from_the_baseline(suite):
    suite.knows(wrong=[1])
    suite.run("evals", "--evals-save-baseline=main")
    suite.knows(wrong=[2])
    suite.run("evals", "--evals-compare=main", "--evals-html=report.html")
    path = suite.pytester.path / "report.html"
    facts = block(path, "facts")
    (task,) = block(path, "index")["tasks"]
    (was,) = [run for run in task["runs"] if run["states"].strip()]
    regressed = [a + b for a, b in zip(was["states"], task["states"], strict=True)]
    assert regressed.index("rw") == task["id"].index("q2")
    whole = {one["id"]: one for one in block(path, "rows-0")}
    assert (whole["q2"]["before"]["answer"], whole["q2"]["answers"]) == (
        "a2",
        [["nonsense"]],
    )
    (points,) = facts["history"]["quiz"].values()
    assert [point["value"] for point in points] == [0.9, 0.9]


def test_members_of_a_group_have_their_node_ids(suite):
    suite.group("all", task=["quiz"])
    suite.run("evals/all.yaml", "--evals-html=report.html")
    parts = block(suite.pytester.path / "report.html", "facts")["parts"]
    assert parts["quiz"]["node"] == "evals/quiz.yaml::quiz"
    assert parts["all"]["members"] == ["quiz"]


def test_the_ini_file_can_request_the_page(suite):
    suite.pytester.makeini("[pytest]\nevals_html = pages/report.html\n")
    suite.run("evals")
    assert (suite.pytester.path / "pages" / "report.html").exists()


def test_a_failure_to_write_the_page_keeps_other_results(
    suite,
):
    suite.replaces_by_a_file("taken")
    result = suite.run("evals", "--evals-html=taken/report.html")
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        ["no report: cannot make the folder '*/taken': it is a file, not a folder"]
    )
    assert suite.results()["results"]["quiz"]["exact_match,none"] == 1.0
    assert len(suite.samples()) == 10


def test_a_folder_is_refused_before_anything_runs(suite):
    result = suite.run("evals", "--evals-html=.")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert not (suite.pytester.path / ".evals").exists()


def test_no_page_is_written_if_no_document_ran(suite):
    suite.run("evals", "--collect-only", "--evals-html=report.html")
    suite.run("evals", "--evals-plan", "--evals-html=report.html")
    assert not (suite.pytester.path / "report.html").exists()
