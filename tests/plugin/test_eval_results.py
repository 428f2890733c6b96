"""Gates written in Python: they get all documents, including those of several workers,
and never pass without documents."""

import pytest

TESTS = """
    import pytest
    from pytest_evals import assert_gate

    def test_first(): pass

    def test_value(eval_results):
        number = eval_results("quiz")["exact_match,none"]
        assert (number.value, number.n) == (0.8, 10)
        assert number.stderr == pytest.approx(0.4 / 3)
        assert number.higher_is_better

    def test_bounds(eval_results):
        # statsmodels 0.14: proportion_confint(8, 10, alpha=0.1, method="beta")
        number = eval_results("quiz")["exact_match"]
        assert number.lower == pytest.approx(0.493, abs=5e-4)
        assert number.upper == pytest.approx(0.963, abs=5e-4)

    def test_claims(eval_results):
        assert assert_gate("quiz/exact_match >= 0.8", eval_results)
        assert_gate("quiz/exact_match", eval_results, min=0.3, over="population")

    def test_red(eval_results):
        assert_gate("quiz/exact_match,none >= 0.9", eval_results)

    def test_group(eval_results):
        assert eval_results("both")["exact_match"].value == 0.9

    def test_metric_is_misspelt(eval_results):
        eval_results("quiz")["exact_mach"]

    def test_task_is_misspelt(eval_results):
        eval_results("quizz")
"""
OUTCOMES = {"passed": 24, "wrong": 2, "failed": 3}


@pytest.fixture
def two_tasks(suite):
    suite.task("quiz", gates=["exact_match >= 0.5"])
    suite.task("zoo")
    suite.group("both", task=["quiz", "zoo"])
    suite.knows(wrong=[1, 4], tasks=["quiz"])
    answers = suite.pytester.path / "answers.jsonl"
    first = answers.read_text()
    suite.knows(tasks=["zoo"])
    answers.write_text(first + answers.read_text())
    return suite


@pytest.mark.parametrize("workers", [[], ["-n2"]])
def test_tests_of_results_run_last_over_all_documents(two_tasks, workers):
    two_tasks.pytester.makepyfile(test_a=TESTS)
    done = two_tasks.run("test_a.py", "evals", "-v", *workers)
    assert done.ret == 1
    assert done.parseoutcomes() == OUTCOMES
    done.stdout.fnmatch_lines_random(
        [
            "E*AssertionError: quiz: quiz/exact_match,none >= 0.9",
            "E*exact_match 0.800 is not >= 0.9 (8 of 10)*",
            "E*quiz has no metric 'exact_mach'; did you mean 'exact_match'?",
            "E*unknown task or group 'quizz'; did you mean 'quiz'?",
        ]
    )
    assert [gate["id"] for gate in two_tasks.results()["gates"]] == ["exact_match"]


def test_tests_of_incomplete_results_are_skipped(two_tasks):
    two_tasks.pytester.makepyfile(
        """
        from pytest_evals import assert_gate

        def test_number(eval_results):
            eval_results("quiz")

        def test_claim(eval_results):
            assert_gate("quiz/exact_match >= 0", eval_results)

        def test_other(eval_results):
            assert eval_results("zoo")["exact_match"].value == 1
        """
    )
    done = two_tasks.run("-rs", "-k", "not q3 or zoo or test_")
    assert done.parseoutcomes()["skipped"] == 3
    done.stdout.fnmatch_lines_random(
        ["SKIPPED*quiz: 9 of 10 documents were run*", "SKIPPED*indicative value*"]
    )


def test_without_eval_files_tests_of_results_are_skipped(pytester):
    pytester.makepyfile("def test_it(eval_results): eval_results('quiz')")
    done = pytester.runpytest("-rs")
    done.assert_outcomes(skipped=1)
    done.stdout.fnmatch_lines(["*no eval file was collected*"])


def test_a_metric_with_unscored_documents_has_no_number(suite):
    suite.task("quiz")
    suite.knows(errors=[3])
    suite.pytester.makepyfile(
        """
        from pytest_evals import assert_gate

        def test_number(eval_results):
            assert eval_results("quiz")["exact_match"].value

        def test_kept(eval_results):
            assert_gate("quiz/exact_match >= 0.9", eval_results)

        def test_turned(eval_results):
            assert_gate("quiz/exact_match >= 0.95", eval_results)
        """
    )
    done = suite.run()
    assert done.parseoutcomes() == {"passed": 10, "failed": 2, "errors": 1}
    done.stdout.fnmatch_lines_random(
        [
            "E*exact_match,none of quiz: 1 of 10 documents have no score*",
            "E*invalid: 1 of 10 documents has no score (1 errored)*",
        ]
    )


def test_an_inconclusive_assert_gate_warns_or_fails(suite):
    suite.task("quiz")
    suite.knows(wrong=[1])
    suite.pytester.makepyfile(
        """
        from pytest_evals import assert_gate

        def test_it(eval_results):
            assert_gate("quiz/exact_match", eval_results, min=0.8, over="population")
        """
    )
    done = suite.run("-Wdefault", "--evals-inconclusive=warn")
    assert done.parseoutcomes() == {"passed": 10, "wrong": 1, "warnings": 1}
    done.stdout.fnmatch_lines(
        ["*test_*.py:4: PytestWarning: quiz: {metric:*contains 0.8*"]
    )
    assert suite.run("--evals-inconclusive=fail").parseoutcomes()["failed"] == 1


def test_an_invalid_assert_gate_fails_with_its_location(suite):
    suite.pytester.makepyfile(
        """
        from pytest_evals import assert_gate

        def test_it(eval_results):
            assert_gate("exact_match => 1", eval_results)
        """
    )
    done = suite.run()
    done.stdout.fnmatch_lines(["E*test_*.py:4: gate 'exact_match => 1', column 13:*"])


@pytest.mark.slow
def test_a_worker_that_crashes_in_a_test_of_results_is_replaced(two_tasks):
    """The replacing worker continues where the first one died, with all records."""
    two_tasks.pytester.makepyfile(
        """
        import os
        from pathlib import Path

        def test_dies_once(eval_results):
            if not Path("died").exists():
                Path("died").touch()
                os._exit(1)
            assert eval_results("quiz")["exact_match"].value == 0.8

        def test_other(eval_results):
            assert eval_results("zoo")["exact_match"].value == 1
        """
    )
    done = two_tasks.run("-n2")
    assert done.parseoutcomes()["passed"] == 21
    assert done.ret == 0
