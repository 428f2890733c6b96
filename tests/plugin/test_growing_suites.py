"""Suites change from run to run: comparisons and baseline gates use the documents that
both runs have, and list the others."""

import json

import pytest

GATE = {"metric": "exact_match", "baseline": "main", "max_drop": 0.1, "over": "run"}


@pytest.fixture
def grown(suite):
    """A suite with a gate and a baseline of ten documents."""
    suite.task("quiz", gates=[GATE])
    assert suite.run("evals", "--evals-save-baseline=main").ret == 0
    return suite


def rows_of(suite):
    path = suite.evals / "quiz.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def write(suite, rows):
    path = suite.evals / "quiz.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def added(rows):
    return [*rows, {"id": "q10", "question": "quiz 3?", "answer": "a3"}]


def removed(rows):
    return [row for row in rows if row["id"] != "q3"]


def edited(rows):
    return [{**row, "answer": "other"} if row["id"] == "q3" else row for row in rows]


def renamed(rows):
    return [{**row, "id": f"x{n}"} for n, row in enumerate(rows)]


def reordered(rows):
    return rows[::-1]


@pytest.mark.parametrize(
    ("change", "note"),
    [
        (added, "10 of 10 documents in the baseline compared; 1 document (q10) added"),
        (
            removed,
            "9 of 10 documents in the baseline compared; 1 document (q3) removed",
        ),
        (edited, "9 of 10 *; the target has changed: 1 document (q3)"),
    ],
)
def test_documents_of_both_runs_are_compared_and_the_others_named(grown, change, note):
    write(grown, change(rows_of(grown)))
    result = grown.run("evals", "--evals-compare=main")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            f"quiz::* passed: {note[:10]}*",
            "* documents: 0 worse, 0 better",
            f"*quiz: {note}",
        ]
    )


@pytest.mark.parametrize("change", [renamed, reordered])
def test_other_ids_and_another_order_are_the_same_documents(grown, change):
    write(grown, change(rows_of(grown)))
    result = grown.run("evals", "--evals-compare=main")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["10 documents: 0 worse, 0 better"])
    result.stdout.no_fnmatch_line("*added*")


def test_a_worse_document_counts_among_the_shared_ones(grown):
    write(grown, added(rows_of(grown)))
    grown.knows(wrong=[4, 5])
    result = grown.run("evals", "--evals-compare=main")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*-20.00*", "10 documents: 2 worse, 0 better"])


@pytest.mark.slow
def test_a_gate_is_invalid_if_too_few_documents_are_left(grown):
    """Deleting the hard documents must not pass."""
    write(grown, rows_of(grown)[:7])
    result = grown.run("evals")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*7 of 10 documents are left to compare, and min_o*"])
    assert grown.run("evals", "--evals-min-overlap=0.7").ret == 0
    grown.task("quiz", gates=[{**GATE, "min_overlap": "70%"}])
    assert grown.run("evals").ret == 0


def test_a_release_needs_all_documents_of_the_baseline(grown):
    write(grown, removed(rows_of(grown)))
    release = ("evals", "--evals-profile=release")
    result = grown.run(*release)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*9 of 10 documents are left*min_overlap is 1*"])
    grown.task("quiz", gates=[{**GATE, "min_overlap": 0.9}])
    assert grown.run(*release).ret == 0


def test_a_new_task_has_no_comparison_and_does_not_fail(grown):
    grown.task("zoo", gates=[GATE])
    grown.knows(tasks=("quiz", "zoo"))
    result = grown.run("evals", "--evals-compare=main")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*10 documents: 0 worse*", "*zoo: new, not in main*"])


def test_the_baseline_is_saved_again_after_growth(grown):
    write(grown, added(removed(rows_of(grown))))
    assert grown.run("evals", "--evals-save-baseline=main").ret == 0
    result = grown.run("evals", "--evals-compare=main")
    result.stdout.fnmatch_lines(["10 documents: 0 worse, 0 better"])
    result.stdout.no_fnmatch_line("*added*")


def test_a_limit_is_not_a_change_of_the_data(grown):
    result = grown.run("evals", "--evals-compare=main", "--evals-limit=9")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*quiz: 9 documents instead of 10 (limit or sample)"])


def test_a_selection_does_not_count_as_removed_documents(grown):
    result = grown.run("evals", "-k", "q1", "--evals-compare=main")
    result.stdout.no_fnmatch_line("*) removed*")
