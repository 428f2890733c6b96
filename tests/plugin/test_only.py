"""--evals-only: selected documents of the last run."""

from __future__ import annotations

import json

import pytest


def select(suite, words, *arguments, **more):
    return suite.run("evals", f"--evals-only={words}", *arguments, **more)


def newest(suite):
    """The folder of the newest run."""
    runs = suite.pytester.path.glob(".evals/runs/*")
    return max(runs, key=lambda path: path.stat().st_mtime_ns)


@pytest.fixture
def mixed(suite):
    """A run with two wrong documents, one error, and three that were not run."""
    suite.knows(wrong=[1, 4], errors=[6])
    suite.run("evals", "-k", "not (q7 or q8 or q9)")
    return suite


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("wrong", "14"),
        ("error", "6"),
        ("missing", "789"),
        ("wrong,error", "146"),
        ("missing, wrong", "14789"),
    ],
)
def test_only_documents_with_the_status_run(mixed, words, expected):
    result = select(mixed, words, "--collect-only", "-q")
    ids = [line for line in result.stdout.lines if "::" in line]
    assert ids == [f"evals/quiz.yaml::quiz[q{n}]" for n in expected]
    result.stdout.fnmatch_lines(
        [f"evals: {len(expected)} of 10 documents: * in *.evals/runs/*"]
    )


def test_gates_over_a_selection_are_skipped(suite):
    suite.task("quiz", gates=["exact_match >= 0.5"])
    suite.knows(wrong=[1])
    assert suite.run("evals").parseoutcomes() == {"passed": 10, "wrong": 1}
    result = select(suite, "wrong")
    outcomes = result.parseoutcomes()
    assert outcomes == {"wrong": 1, "skipped": 1, "deselected": 9}


def test_an_empty_selection_runs_no_documents(suite):
    suite.task("quiz", gates=["exact_match >= 0.5"])
    suite.run("evals")
    result = select(suite, "wrong")
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    result.stdout.fnmatch_lines(["evals: 0 of 10 documents: wrong in *"])


def test_without_an_earlier_run_all_documents_are_missing(suite):
    assert select(suite, "missing").parseoutcomes() == {"passed": 10}
    other = select(suite, "wrong", model="scripted:first")
    assert other.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    other.stdout.fnmatch_lines(["*no earlier run of this model is stored; *"])


def test_runs_of_other_models_are_ignored(mixed):
    mixed.run("evals", model="scripted:first")
    result = select(mixed, "wrong", "--collect-only", "-q")
    result.stdout.fnmatch_lines(["evals: 2 of 10 documents: wrong in *"])


def test_a_document_with_a_truncated_line_is_missing(suite):
    suite.run("evals")
    path = newest(suite) / "samples_quiz.jsonl"
    raw = path.read_bytes()
    path.write_bytes(raw[:-40])
    result = select(suite, "missing")
    assert result.parseoutcomes() == {"passed": 1, "deselected": 9}


def test_a_changed_task_is_reported(mixed):
    mixed.task("quiz", doc_to_text="Q: {{question}}")
    result = select(mixed, "wrong", "--collect-only", "-q")
    result.stdout.fnmatch_lines(
        ["evals: 2 of 10 *", "evals: warning: quiz has changed since that run; *"]
    )


def test_documents_are_selected_by_id_not_by_position(mixed):
    """A prompt may change between the runs, which is their purpose; and a data file may
    have new lines."""
    path = mixed.evals / "quiz.jsonl"
    first, *lines = path.read_text().splitlines(keepends=True)
    new = json.dumps({"id": "new", "question": "quiz new?", "answer": "a"}) + "\n"
    path.write_text("".join([new, *reversed(lines), first]))
    mixed.task("quiz", doc_to_text="Q: {{question}}", metadata={"id_column": "id"})
    path.write_text("".join([new, *reversed(lines), first]))
    result = select(mixed, "wrong", "--collect-only", "-q")
    ids = [line for line in result.stdout.lines if "::" in line]
    assert ids == [f"evals/quiz.yaml::quiz[q{n}]" for n in (4, 1)]


@pytest.mark.slow
def test_a_replacement_worker_selects_the_same_documents(suite):
    """The newest run is this one by then: its first task has ended."""
    suite.task("zoo")
    suite.pytester.makeconftest(
        """
        import os
        import pytest
        from pytest_evals import Response

        class Fragile:
            name = "fragile"

            def answer(self, requests):
                for position, request in enumerate(requests):
                    if request.prompt == "zoo 9?" and os.path.exists("poison"):
                        os.rename("poison", "gone")
                        os._exit(3)
                    yield position, Response(text="wrong")

        @pytest.fixture(scope="session")
        def eval_model():
            return Fragile()
        """
    )
    suite.run("evals", model=None)
    (suite.pytester.path / "poison").touch()
    result = select(suite, "wrong", "-n2", model=None)
    assert not (suite.pytester.path / "poison").exists()
    assert result.parseoutcomes() == {"wrong": 20}


def test_an_unknown_status_is_refused(suite):
    result = select(suite, "wrng")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["*--evals-only=wrng: unknown value 'wrng'; did you mean 'wrong'?"]
    )


@pytest.mark.slow
def test_all_workers_select_the_same_documents(mixed):
    result = mixed.run("evals", "--evals-only=wrong", "-n2")
    assert result.parseoutcomes() == {"wrong": 2}


KILLED = """
import os

from pytest_evals import Response


class Dying:
    name = "dying"

    def answer(self, requests):
        for position, request in enumerate(requests):
            yield position, Response(text=request.prompt)


import pytest


@pytest.fixture(scope="session")
def eval_model():
    return Dying()


def pytest_runtest_logreport(report):
    if report.nodeid.endswith("second[q5]"):
        os._exit(9)
"""


@pytest.mark.slow
def test_completed_tasks_are_on_disk_if_the_run_is_killed(suite):
    (suite.evals / "quiz.yaml").unlink()
    suite.task("first")
    suite.task("second")
    suite.pytester.makeconftest(KILLED)
    suite.pytester.runpytest_subprocess("evals")
    results = json.loads((newest(suite) / "results.json").read_text())
    assert list(results["results"]) == ["first"]
    assert results["counts"]["first"]["wrong"] == 10
    assert results["partial"] == "the run has not ended, or was killed"
    lines = (newest(suite) / results["sample_files"]["first"]).read_text().splitlines()
    assert len(lines) == 10
