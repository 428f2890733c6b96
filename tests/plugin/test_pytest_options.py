"""Options of pytest itself mean for documents and gates what they mean for tests."""

import pytest


@pytest.fixture
def mixed(suite):
    """A gate that fails, and a test that fails as long as there is a file ``bad``."""
    suite.task("quiz", gates=["exact_match >= 0.95"])
    suite.knows(wrong=[2])
    suite.pytester.path.joinpath("bad").touch()
    suite.pytester.path.joinpath("evals/test_bad.py").write_text(
        "import pathlib\n"
        "def test_bad(tmp_path):\n"
        "    assert not pathlib.Path('bad').exists()\n"
    )
    return suite


def test_stepwise_comes_to_the_gates_and_judges_them_over_all_documents(mixed):
    first = mixed.run("evals", "--sw")
    assert first.parseoutcomes() == {"passed": 9, "wrong": 1, "failed": 1}
    mixed.pytester.path.joinpath("bad").unlink()
    second = mixed.run("evals", "--sw")
    second.stdout.fnmatch_lines(["FAILED evals/quiz.yaml::quiz::exact_match *"])
    mixed.knows()
    third = mixed.run("evals", "--sw")
    assert (third.ret, third.parseoutcomes()["passed"]) == (0, 11)


def test_a_run_without_documents_and_gates_says_and_writes_nothing(mixed):
    for arguments in (("-m", "not evals"), ("-k", "no_such_name"), ("--setup-plan",)):
        result = mixed.run("evals", *arguments)
        result.stdout.no_fnmatch_line("*= evals =*")
        assert not list(mixed.pytester.path.glob(".evals/runs/*"))
    # A file that tells of another run would be taken for this one's.
    mixed.run("evals", "-k", "no_such_name", "--evals-json=results.json")
    assert mixed.pytester.path.joinpath("results.json").exists()


def test_the_line_after_collection_counts_what_is_selected(mixed):
    result = mixed.run("evals", "-k", "q1 or q2", "--collect-only")
    result.stdout.fnmatch_lines(["evals: 1 task, 2 documents, 0 gates *"])


def test_fixtures_per_test_shows_those_of_tests(mixed):
    result = mixed.run("evals", "--fixtures-per-test")
    result.stdout.fnmatch_lines(["*fixtures used by test_bad*", "tmp_path -- *"])
    result.stdout.no_fnmatch_line("*INTERNALERROR*")


def test_a_failure_is_its_first_line_and_its_place_where_a_line_is_wanted(mixed):
    result = mixed.run("evals/quiz.yaml", "--tb=line", "--evals-strict")
    document = ["the answer is wrong", "*/evals/quiz.yaml:1: the answer is wrong"]
    gate = "exact_match 0.900 is not >= 0.95 (9 of 10)*"
    shown = ["*= FAILURES =*", *document, gate, f"*/evals/quiz.yaml:13: {gate}"]
    result.stdout.fnmatch_lines([*shown, "*= evals =*"], consecutive=True)


def test_tasks_need_no_plugin_for_python_tests(mixed):
    result = mixed.run("evals", "-p", "no:python")
    assert result.parseoutcomes() == {"passed": 9, "wrong": 1, "failed": 1}


def test_a_gate_by_its_id_runs_its_documents_from_any_folder(mixed, monkeypatch):
    monkeypatch.chdir(mixed.pytester.path / "evals")
    result = mixed.run("quiz.yaml::quiz::exact_match", model="scripted:first")
    assert (result.ret, result.parseoutcomes()) == (1, {"wrong": 10, "failed": 1})
