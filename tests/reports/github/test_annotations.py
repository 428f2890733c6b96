"""Gates and faults as GitHub workflow commands; the form is that of GitHub's page
"Workflow commands", the escapes are those of actions/toolkit (``command.ts``)."""

from pathlib import Path

import pytest

from pytest_evals.errors import Place, Problem
from pytest_evals.reports.github.annotations import (
    annotation_lines,
    of_problems,
    of_verdicts,
)


@pytest.fixture
def verdict(make, tmp_path):
    """A verdict whose gate is in a file of the repository."""
    path = tmp_path / "evals" / "a,b:c.yaml"
    path.parent.mkdir()
    path.write_text("gates:\n")

    def of(outcome, reason="0.250 is not >= 0.75", text="acc >= 0.75", **facts):
        gate = make.gate(text)
        object.__setattr__(gate, "source", Place(path, 31))
        return make.verdict(gate, outcome, reason=reason, **facts)

    return of


def lines(verdicts, root):
    return list(annotation_lines([*of_verdicts(verdicts)], root))


def test_a_failed_gate_points_at_its_line(verdict, tmp_path):
    assert lines([verdict("failed")], tmp_path) == [
        "::error file=evals/a%2Cb%3Ac.yaml,line=31,title=gsm8k acc::"
        "acc 0.250 is not >= 0.75"
    ]


def test_an_open_gate_warns_where_it_does_not_fail(verdict, tmp_path):
    found = lines([verdict("inconclusive", "open")], tmp_path)
    assert found[0].startswith("::warning ")
    assert found[0].endswith("::inconclusive: acc open")
    failing = verdict("inconclusive", "open", policy="fail")
    assert lines([failing], tmp_path)[0].startswith("::error ")
    assert lines([verdict("inconclusive", policy="pass")], tmp_path) == []


def test_passed_and_skipped_gates_have_no_annotation(verdict, tmp_path):
    assert lines([verdict("passed"), verdict("skipped")], tmp_path) == []


def test_messages_cannot_end_the_command_or_begin_another(verdict, tmp_path):
    reason = "100%\n::error::owned\r\n##[error]owned"
    (line,) = lines([verdict("failed", reason)], tmp_path)
    assert "\n" not in line
    assert line.endswith("::acc 100%25⏎::error::owned\\r⏎\\x23#[error]owned")


def test_at_most_ten_of_a_kind_and_the_number_of_the_others(verdict, tmp_path):
    ten = lines([verdict("failed")] * 10, tmp_path)
    assert len(ten) == 10
    many = lines([verdict("failed")] * 12 + [verdict("inconclusive")], tmp_path)
    assert len(many) == 11
    assert many[9] == "::error title=evals::and 3 more"
    assert many[10].startswith("::warning ")


def test_files_outside_of_the_repository_and_options_are_not_named(
    verdict, tmp_path, make
):
    (line,) = lines([verdict("failed")], tmp_path / "elsewhere")
    assert line.startswith("::error title=gsm8k acc::")
    typed = make.gate()
    object.__setattr__(typed, "source", Place(Path("--evals-gate")))
    (line,) = lines([make.verdict(typed, "failed", reason="no")], Path.cwd())
    assert line == "::error title=gsm8k acc::acc no"


def test_a_fault_of_a_task_file_has_its_line_and_its_fix(tmp_path):
    path = tmp_path / "arc.yaml"
    path.write_text("")
    problem = Problem("no key 'taks'", Place(path, 3), "task: arc")
    assert list(annotation_lines([*of_problems([problem])], tmp_path)) == [
        "::error file=arc.yaml,line=3,title=task file::no key 'taks'%0Afix: task: arc"
    ]
