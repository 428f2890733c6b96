"""Gates as tests."""

from __future__ import annotations

import pytest


def test_gates_are_read_from_task_files_metadata_gates_files_and_options(
    suite,
):
    suite.task(
        "quiz",
        gates=["exact_match >= 0.5"],
        metadata={
            "version": 1,
            "gates": [{"metric": "exact_match", "min": 0.1, "id": "floor"}],
        },
    )
    (suite.evals / "gates.yaml").write_text(
        "gates:\n  - {task: quiz, metric: exact_match, min: 0.6, id: second}\n"
    )
    result = suite.run(
        "evals", "--evals-gate=exact_match >= 0.7", "--collect-only", "-q"
    )
    gates = [line for line in result.outlines if line.count("::") == 2]
    assert gates == [
        "evals/quiz.yaml::quiz::exact_match",
        "evals/quiz.yaml::quiz::floor",
        "evals/quiz.yaml::quiz::second",
        "evals/quiz.yaml::quiz::exact_match#2",
    ]
    assert suite.run("evals").ret == 0


def test_a_gate_exactly_at_its_threshold_passes(suite):
    """7 of 10 is at least 0.7, despite floating-point rounding."""
    suite.task("quiz", gates=["exact_match >= 0.7"])
    suite.knows(wrong=[0, 1, 2])
    assert suite.run("evals").ret == 0


def test_a_failed_gate_shows_numbers_location_and_examples_without_traceback(suite):
    path = suite.task("quiz", gates=["exact_match >= 0.95"])
    suite.knows(wrong=[2, 3, 5, 8])
    result = suite.run("evals")
    assert result.ret == 1
    line = path.read_text().splitlines().index("- exact_match >= 0.95") + 1
    result.stdout.fnmatch_lines(
        [
            "*quiz: exact_match >= 0.95*",
            "exact_match 0.600 is not >= 0.95 (6 of 10)*",
            f"evals/quiz.yaml:{line}",
            "E   4 more correct answers would have passed.",
            "  wrong (3 of 4)",
            "    quiz[[]q2[]]",
            "      prompt  quiz 2?",
            "      answer  nonsense",
            "      target  a2",
            "FAILED evals/quiz.yaml::quiz::exact_match - exact_match 0.600 is not *",
        ]
    )
    result.stdout.no_fnmatch_line("*Traceback*")
    result.stdout.no_fnmatch_line("*pytest_evals/*.py*")


def test_a_gate_over_part_of_its_documents_is_skipped(suite):
    suite.task("quiz", gates=["exact_match > 0"])
    result = suite.run("evals", "-k", "q1 or exact_match")
    assert "skipped" in result.parseoutcomes()
    result.stdout.fnmatch_lines(["*of 10 documents were run*"])


def test_gate_under_a_limit_is_judged_over_the_limited_documents(suite):
    suite.task("quiz", gates=["exact_match >= 1"])
    suite.knows(wrong=[5])
    result = suite.run("evals", "--evals-limit=5")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*5 of 10*"])


def test_a_gate_that_errored_documents_could_change_is_invalid(suite):
    suite.task("quiz", gates=["exact_match >= 0.85"])
    suite.knows(errors=[1, 2])
    result = suite.run("evals", "-v")
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "evals/quiz.yaml::quiz::exact_match INVALID *",
            "invalid: 2 of 10 documents have no score (2 errored); the value is "
            "between 0.800 and 1.000, so they decide the gate",
            "INVALID evals/quiz.yaml::quiz::exact_match - invalid: 2 of 10 *",
        ]
    )


def test_a_gate_on_a_metric_without_scores_is_invalid(suite):
    """The return value of a user function is known only after the call."""
    (suite.evals / "own.py").write_text(
        "def score(doc, results): return {'exact_match': 1, 'length': 3}\n"
    )
    path = suite.task("quiz", gates=["politeness >= 0.5", "length >= 3"])
    path.write_text(path.read_text() + "process_results: !function own.score\n")
    result = suite.run("evals")
    assert (result.ret, result.parseoutcomes()["passed"]) == (1, 11)
    result.stdout.fnmatch_lines(["*unknown metric 'politeness'*exact_match*"])


@pytest.mark.parametrize(
    ("gate", "fault"),
    [
        ("exact_mach >= 0.5", "unknown metric 'exact_mach'*'exact_match'? the *"),
        ("exact_match,strict >= 0.5", "*unknown filter 'strict' of*known: none"),
        ({"must_pass": ["q1", "q77"]}, "unknown document 'q77'*"),
        ("exact_match >= 75", "exact_match is between 0 and 1*did you mean >= 75%?"),
        ("accuracy >= 0.5", "unknown metric 'accuracy'; the task has exact_match"),
        ("exact_match >= 0", "exact_match is between 0 and 1, so >= 0 always holds*"),
    ],
)
def test_invalid_gates_are_collection_errors(suite, gate, fault):
    suite.task("quiz", gates=[gate])
    result = suite.run("evals", model="scripted:break")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*evals/quiz.yaml:*: {fault}"])


def test_gates_are_selected_by_the_tags_of_their_task(suite):
    suite.task("quiz", tag="quick", gates=["exact_match >= 0.95"])
    suite.knows(wrong=[3])
    assert suite.run("evals", "-m", "quick").ret == 1


def test_gates_file_may_end_in_yml(suite):
    (suite.evals / "gates.yml").write_text("gates:\n  - quiz/exact_match >= 0.95\n")
    suite.knows(wrong=[3])
    assert suite.run("evals").ret == 1


def test_gates_do_not_pass_if_the_model_cannot_be_opened(suite):
    suite.task("quiz", gates=["exact_match > 0"])
    suite.pytester.makeconftest(
        """
        import pytest
        from pytest_evals import ModelError

        @pytest.fixture(scope="session")
        def eval_model():
            raise ModelError("no model")
        """
    )
    result = suite.run("evals", model=None)
    assert result.ret == 1
    assert "passed" not in result.parseoutcomes()


def test_must_pass_names_the_documents_that_were_wrong(suite):
    suite.task("quiz", gates=[{"must_pass": ["q1", "q2"]}])
    suite.knows(wrong=[2])
    result = suite.run("evals")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["FAILED evals/quiz.yaml::quiz::must-pass - 1 of 2*q2"])


def test_gates_file_that_names_an_unknown_task_is_a_usage_error(suite):
    (suite.evals / "gates.yaml").write_text("gates:\n  - quis/exact_match >= 0.5\n")
    result = suite.run("evals")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["*evals/gates.yaml:2: unknown task 'quis'; did you mean 'quiz'?"]
    )


def test_lf_runs_a_failed_gate_again_with_all_its_documents(suite):
    suite.task("quiz", gates=["exact_match >= 0.95"])
    suite.task("zoo")
    suite.knows(wrong=[2], tasks=["quiz", "zoo"])
    assert suite.run("evals").ret == 1
    again = suite.run("evals", "--lf")
    assert again.ret == 1
    assert again.parseoutcomes()["failed"] == 1
    again.stdout.fnmatch_lines(["exact_match 0.900 is not >= 0.95 (9 of 10)*"])
    suite.knows(tasks=["quiz", "zoo"])
    assert suite.run("evals", "--lf").ret == 0


def test_failed_gate_that_is_skipped_stays_in_the_list_of_failures(suite):
    suite.task("quiz", gates=["exact_match >= 0.95"])
    suite.knows(wrong=[2])
    suite.run("evals")
    suite.run("evals", "-k", "q1 or exact_match")
    assert suite.run("evals", "--lf").ret == 1


def test_a_gate_on_a_hooks_metric_selected_by_id_has_the_verdict_of_the_full_run(suite):
    suite.pytester.makeconftest(
        "def pytest_evals_metrics(task, records): return {'n': len(records)}"
    )
    suite.task("quiz", gates=["n >= 10"])
    assert suite.run("evals").ret == 0
    result = suite.run("evals/quiz.yaml::quiz::n")
    assert result.parseoutcomes() == {"passed": 11}


def test_gates_of_deselected_tasks_are_accepted(suite):
    suite.task("second")
    (suite.evals / "gates.yaml").write_text("gates: [second/exact_match >= 0.5]\n")
    done = suite.run("evals", "--evals-tasks=quiz")
    assert done.ret == 0
    done.assert_outcomes(passed=10)


FAILS = {"passed": 9, "wrong": 1, "failed": 1}


@pytest.fixture
def failing(suite):
    """A gate that fails and one that passes, and a task without any."""
    low = {"metric": "exact_match", "min": 0.1, "id": "low"}
    suite.task("quiz", gates=["exact_match >= 0.95", low])
    suite.task("zoo")
    suite.knows(wrong=[2], tasks=["quiz", "zoo"])
    return suite


@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_the_id_of_a_failed_gate_runs_its_documents_and_judges_it(failing, workers):
    whole = failing.run("evals", workers)
    (line,) = [one for one in whole.outlines if one.startswith("FAILED ")]
    again = failing.run(line.split()[1], workers)
    assert (again.ret, again.parseoutcomes()) == (1, FAILS)
    again.stdout.fnmatch_lines(["exact_match 0.900 is not >= 0.95 (9 of 10)*"])


def test_a_gate_selected_by_id_uses_stored_responses(suite):
    """Its documents need no model then: this one cannot be loaded twice."""
    suite.task("quiz", gates=["exact_match >= 0.95"])
    suite.pytester.makeconftest(
        """
        from pathlib import Path
        from pytest_evals import Response

        class Once:
            name, fingerprint = "once", {"version": 1}

            def answer(self, requests):
                assert not Path("requests").exists()
                Path("requests").touch()
                for position, request in enumerate(requests):
                    yield position, Response(text="a0", finish="stop")

        def pytest_evals_open_model(spec):
            return Once() if spec == "once:" else None
        """
    )
    first = suite.run("evals", model="once:")
    again = suite.run("evals/quiz.yaml::quiz::exact_match", model="once:")
    assert first.parseoutcomes() == again.parseoutcomes()
    assert again.ret == 1


def test_a_gate_selected_with_one_document_runs_all_its_documents(failing):
    result = failing.run(
        "evals/quiz.yaml::quiz[q2]", "evals/quiz.yaml::quiz::exact_match"
    )
    assert (result.ret, result.parseoutcomes()) == (1, FAILS)


def test_a_gate_selected_without_documents_runs_all_its_documents(failing):
    result = failing.run("evals", "-k", "low")
    assert result.ret == 0
    outcomes = result.parseoutcomes()
    assert (outcomes["passed"], outcomes["wrong"]) == (10, 1)
    named = failing.run("evals/quiz.yaml::quiz::low", "-k", "low")
    assert named.parseoutcomes()["passed"] == 10


def test_deselect_excludes_a_document_of_a_selected_gate(failing):
    result = failing.run(
        "evals/quiz.yaml::quiz::low", "--deselect=evals/quiz.yaml::quiz[q1]"
    )
    assert result.parseoutcomes()["skipped"] == 1
    result.stdout.fnmatch_lines(["*9 of 10 documents were run*"])


@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_lf_runs_a_failed_gate_with_documents_that_did_not_fail(failing, workers):
    """pytest itself collects only the failed items of such a file."""
    failing.knows(wrong=[2, 3], errors=[5], tasks=["quiz", "zoo"])
    assert failing.run("evals/quiz.yaml").ret == 1
    failing.knows(wrong=[2], tasks=["quiz", "zoo"])
    again = failing.run("evals/quiz.yaml", "--lf", workers)
    assert again.ret == 1
    again.stdout.fnmatch_lines(["exact_match 0.900 is not >= 0.95 (9 of 10)*"])


def test_validation_of_a_gate_id_checks_its_task(failing):
    gate = "evals/quiz.yaml::quiz::low"
    result = failing.run(gate, "--evals-validate")
    assert (result.ret, result.parseoutcomes()) == (0, {"passed": 1})
