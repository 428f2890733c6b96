"""Output for a pull request: a summary and annotations in GitHub Actions, elsewhere a
Markdown file."""

from __future__ import annotations

import json

import pytest

GATES = ["exact_match >= 0.95", "exact_match >= 0.5"]


@pytest.fixture
def github(suite, monkeypatch):
    """The suite as GitHub Actions runs it, with an existing step summary."""
    path = suite.pytester.path / "summary.md"
    path.write_text("before\n")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(path))
    monkeypatch.setenv("GITHUB_WORKSPACE", str(suite.pytester.path))
    suite.task("quiz", gates=GATES)
    suite.knows(wrong=[2], errors=[4])
    suite.summary = path
    return suite


@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["plain", "n2"])
def test_github_gets_a_summary_and_an_annotation_at_the_gate(github, workers):
    result = github.run("evals", "-q", *workers)
    line = (github.evals / "quiz.yaml").read_text().splitlines().index(f"- {GATES[0]}")
    result.stdout.fnmatch_lines(
        [f"::error file=evals/quiz.yaml,line={line + 1},title=quiz exact_match::*"]
    )
    text = github.summary.read_text()
    assert text.startswith("before\n## ❌ evals: 1 failed")
    assert "`quiz[q4]` | the server is down" in text
    assert "`exact_match`" in text


def test_workers_and_runs_outside_of_github_write_no_annotations(suite, monkeypatch):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(suite.pytester.path / "no.md"))
    suite.task("quiz", gates=["exact_match >= 1"])
    suite.knows(wrong=[1])
    result = suite.run("evals")
    assert result.ret == 1
    result.stdout.no_fnmatch_line("::*")
    assert not (suite.pytester.path / "no.md").exists()


def test_a_full_step_summary_is_a_warning(github):
    github.summary.write_text("x" * (1024 * 1024 - 10))
    github.task("quiz")
    github.knows()
    result = github.run("evals")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["the job's summary is not written: no space left*"])
    assert github.summary.stat().st_size == 1024 * 1024 - 10


@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["plain", "n2"])
def test_an_invalid_task_file_is_annotated_once(github, workers):
    github.task("zoo", output_type="multiple_choise")
    result = github.run("evals", *workers)
    (line,) = [line for line in result.stdout.lines if ",title=task file::" in line]
    assert line.startswith("::error file=evals/zoo.yaml,line=")
    assert "::unknown output_type 'multiple_choise'" in line


@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["plain", "n2"])
def test_a_gate_that_can_never_fail_is_annotated_at_its_line(github, workers):
    path = github.task("quiz", gates=["exact_match >= 75"])
    line = path.read_text().splitlines().index("- exact_match >= 75") + 1
    result = github.run("evals", *workers)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (found,) = [one for one in result.outlines if one.startswith("::error")]
    assert found.startswith(f"::error file=evals/quiz.yaml,line={line},")
    assert "so >= 75 never holds" in found


def test_generations_cannot_contain_workflow_commands(github):
    """Neither in the log nor in the summary."""
    hostile = "::error::owned ##[error]owned </details>"
    rules = [{"prompt": "quiz 3?", "error": hostile}, {"text": hostile}]
    text = "".join(json.dumps(rule) + "\n" for rule in rules)
    (github.pytester.path / "answers.jsonl").write_text(text)
    result = github.run("evals", "-v", "-rA", "--tb=long")
    for line in result.stdout.lines:
        assert not line.strip().startswith("::error::")
        assert "##[" not in line
    assert "</details>" in "".join(result.stdout.lines)
    assert hostile not in github.summary.read_text()


def test_the_markdown_file_lists_regressions(suite):
    gate = {"metric": "exact_match", "baseline": "main", "max_drop": 0, "over": "run"}
    suite.task("quiz", gates=[gate])
    suite.run("evals", "--evals-save-baseline=main")
    suite.knows(wrong=[3, 5])
    suite.pytester.makeini("[pytest]\nevals_markdown = out/summary.md\n")
    result = suite.run("evals", "--evals-compare=main")
    assert result.ret == 1
    text = (suite.pytester.path / "out" / "summary.md").read_text()
    assert "| `quiz[q3]` | quiz 3? | a3 | a3 | nonsense |" in text
    assert "### Compared with `main`: 10 documents, 2 worse, 0 better" in text


def test_a_failure_to_write_the_markdown_file_fails_the_session(suite):
    suite.replaces_by_a_file("taken")
    result = suite.run("evals", "--evals-markdown=taken/summary.md")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["cannot make the folder *taken*"])
