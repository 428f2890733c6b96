"""Baselines depend on the fields of rows that prompt, target and scoring read, and on
no others."""

from __future__ import annotations

import json

import pytest

GATE = {"metric": "acc", "baseline": "main", "max_drop": 0.1, "over": "run"}
OF_FIELDS = "return {'acc': float(results[0].strip() == doc['answer'].strip())}"
OF_THE_WHOLE_ROW = "row = dict(doc)\n    " + OF_FIELDS.replace("doc[", "row[")
OF_NO_FIELD = "return {'acc': float(len(results[0]) > 0)}"


def scores_by(suite, body):
    """Set a function of the suite as the task's scorer, with a gate on its number."""
    code = f"def process_results(doc, results):\n    {body}\n"
    (suite.evals / "own.py").write_text(code)
    path = suite.task("quiz", gates=[GATE], metric_list=[{"metric": "acc"}])
    text = path.read_text() + "process_results: !function own.process_results\n"
    path.write_text(text)


def change(suite, function):
    """Change each row of the data."""
    path = suite.evals / "quiz.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    changed = [function(i, row) for i, row in enumerate(rows)]
    path.write_text("".join(json.dumps(row) + "\n" for row in changed))


def with_column(name, value=""):
    return lambda i, row: {**row, name: f"{value}{i}"}


def rerun(suite, *arguments):
    return suite.run("evals", "--evals-compare=main", *arguments)


@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["plain", "n2"])
def test_an_unused_column_changes_neither_comparison_nor_gates(suite, workers):
    gate = {**GATE, "metric": "exact_match"}
    suite.task("quiz", gates=[gate])
    suite.knows(wrong=[1])
    assert suite.run("evals", "--evals-save-baseline=main", *workers).ret == 0
    change(suite, with_column("note"))
    suite.knows(wrong=[1, 2])
    result = rerun(suite, "-v", *workers)
    result.stdout.fnmatch_lines(
        ["10 documents: 1 worse, 0 better", "worse * quiz[[]q2[]] *"]
    )
    result.stdout.fnmatch_lines(["*exact_match-vs-main* PASSED*"])
    assert result.parseoutcomes()["regressed"] == 1
    assert result.ret == 0


@pytest.mark.parametrize("column", ["removed", "renamed", "moved"])
def test_columns_that_nothing_reads_may_be_removed_renamed_and_moved(suite, column):
    change(suite, with_column("note"))
    assert suite.run("evals", "--evals-save-baseline=main").ret == 0

    def changed(i, row):
        note = row.pop("note")
        if column == "removed":
            return row
        return {**row, "remark": note} if column == "renamed" else {"note": note, **row}

    change(suite, changed)
    rerun(suite).stdout.fnmatch_lines(["10 documents: 0 worse, 0 better"])


@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["plain", "n2"])
def test_a_column_that_custom_scoring_does_not_read_may_change(suite, workers):
    scores_by(suite, OF_FIELDS)
    assert suite.run("evals", "--evals-save-baseline=main", *workers).ret == 0
    change(suite, with_column("note"))
    result = rerun(suite, *workers)
    result.stdout.fnmatch_lines(["10 documents: 0 worse, 0 better"])
    assert result.ret == 0


@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["plain", "n2"])
def test_a_changed_field_that_custom_scoring_reads_is_named(suite, workers):
    scores_by(suite, OF_FIELDS.replace("['answer']", "['rubric']"))
    change(suite, with_column("rubric", "a"))
    assert suite.run("evals", "--evals-save-baseline=main", *workers).ret == 0
    change(suite, lambda i, row: {**row, "rubric": "b"} if i == 3 else row)
    result = rerun(suite, *workers)
    why = "the field 'rubric', which scoring reads, has changed: 1 document (q3)"
    result.stdout.fnmatch_lines(
        [
            "quiz::* passed: 9 of 10 documents in the baseline *",
            f"*: quiz: 9 of*; {why}",
        ]
    )
    assert result.ret == 0


def test_all_fields_are_compared_if_scoring_copies_rows(suite):
    scores_by(suite, OF_THE_WHOLE_ROW)
    assert suite.run("evals", "--evals-save-baseline=main").ret == 0
    change(suite, with_column("note"))
    rerun(suite).stdout.fnmatch_lines(
        [
            "not compared: quiz: the field 'note', which scoring may read, since it "
            "gets whole rows, has changed: 10 documents (q0, q1, q2, q3, …): *"
        ]
    )


def test_all_fields_are_compared_if_scoring_reads_no_row(suite):
    """Compiled code may read a row without Python's methods."""
    scores_by(suite, OF_NO_FIELD)
    assert suite.run("evals", "--evals-save-baseline=main").ret == 0
    change(suite, with_column("note"))
    rerun(suite).stdout.fnmatch_lines(["not compared: quiz: the field 'note'*"])


def test_a_field_read_for_some_answers_is_compared_for_all(suite):
    body = "return {'acc': float(results[0] != 'nonsense' and doc['rubric'] != '')}"
    scores_by(suite, body)
    change(suite, with_column("rubric", "x"))
    suite.knows(wrong=[3])
    assert suite.run("evals", "--evals-save-baseline=main").ret == 0
    change(suite, lambda i, row: {**row, "rubric": "y"} if i == 3 else row)
    suite.knows()
    rerun(suite).stdout.fnmatch_lines(
        ["warning: quiz: 9 of 10 *; the field 'rubric'*(q3)"]
    )


def test_changed_choices_are_distinguished_from_changed_prompts(suite):
    keys = {
        "output_type": "multiple_choice",
        "doc_to_choice": "{{[answer, other]}}",
        "doc_to_target": 0,
        "metric_list": [{"metric": "acc"}],
    }
    suite.task("quiz", **keys)
    change(suite, with_column("other", "b"))
    saved = suite.run("evals", "--evals-save-baseline=main", model="scripted:first")
    assert saved.ret == 0
    change(suite, lambda i, row: {**row, "other": "c"} if i == 3 else row)
    result = suite.run("evals", "--evals-compare=main", model="scripted:first")
    why = "the choices or references have changed: 1 document (q3)"
    result.stdout.fnmatch_lines([f"warning: quiz: 9 of 10 documents *; {why}"])


def test_a_column_to_cluster_by_may_be_added(suite):
    gate = {**GATE, "metric": "exact_match"}
    suite.task("quiz", gates=[gate])
    assert suite.run("evals", "--evals-save-baseline=main").ret == 0
    clustered = {**gate, "cluster": "passage", "over": "population", "max_drop": 0.9}
    suite.task("quiz", gates=[clustered])
    change(suite, lambda i, row: {**row, "passage": i // 2})
    result = suite.run("evals")
    result.stdout.no_fnmatch_line("*not comparable*")
    assert result.ret == 0


@pytest.mark.slow
def test_a_baseline_of_an_earlier_version_is_usable_if_rows_are_equal(suite):
    suite.task("quiz", gates=[{**GATE, "metric": "exact_match"}])
    assert suite.run("evals", "--evals-save-baseline=main").ret == 0
    path = suite.pytester.path / ".evals/baselines/main/samples_quiz.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    new = {"choices_hash", "reads", "fields"}
    old = [{k: v for k, v in row.items() if k not in new} for row in rows]
    path.write_text("".join(json.dumps(row) + "\n" for row in old))
    rerun(suite).stdout.fnmatch_lines(["10 documents: 0 worse, 0 better"])
    change(suite, with_column("note"))
    result = rerun(suite)
    result.stdout.fnmatch_lines(
        [
            "not compared: quiz: the data has changed, in a baseline that does not "
            "record the fields that scoring reads: 10 documents (q0, q1, q2, q3, *"
        ]
    )
