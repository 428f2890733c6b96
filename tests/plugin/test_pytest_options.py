"""pytest's own options have the same meaning for documents and gates as for tests."""

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


def test_stepwise_judges_gates_over_all_documents(mixed):
    first = mixed.run("evals", "--sw")
    assert first.parseoutcomes() == {"passed": 9, "wrong": 1, "failed": 1}
    mixed.pytester.path.joinpath("bad").unlink()
    second = mixed.run("evals", "--sw")
    second.stdout.fnmatch_lines(["FAILED evals/quiz.yaml::quiz::exact_match *"])
    mixed.knows()
    third = mixed.run("evals", "--sw")
    assert (third.ret, third.parseoutcomes()["passed"]) == (0, 11)


def test_a_run_without_documents_prints_and_writes_nothing(mixed):
    for arguments in (("-m", "not evals"), ("-k", "no_such_name"), ("--setup-plan",)):
        result = mixed.run("evals", *arguments)
        result.stdout.no_fnmatch_line("*= evals =*")
        assert not list(mixed.pytester.path.glob(".evals/runs/*"))
    # a file of another run would be mistaken for this one's
    mixed.run("evals", "-k", "no_such_name", "--evals-json=results.json")
    assert mixed.pytester.path.joinpath("results.json").exists()


def test_the_collection_line_counts_selected_items(mixed):
    result = mixed.run("evals", "-k", "q1 or q2", "--collect-only")
    result.stdout.fnmatch_lines(["evals: 1 task, 2 documents, 0 gates *"])


def test_fixtures_per_test_shows_those_of_tests(mixed):
    result = mixed.run("evals", "--fixtures-per-test")
    result.stdout.fnmatch_lines(["*fixtures used by test_bad*", "tmp_path -- *"])
    result.stdout.no_fnmatch_line("*INTERNALERROR*")


def test_tb_line_shows_the_first_line_and_location_of_a_failure(mixed):
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


WORKERS = pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["plain", "n2"])


@pytest.mark.slow
@WORKERS
def test_the_short_summary_lists_wrong_documents_with_passed_ones(mixed, workers):
    for option in ("-rA", "-rp", "-qrp"):
        result = mixed.run("evals/quiz.yaml", option, *workers)
        lines = result.outlines
        summary = lines[
            [*map(str.strip, lines)].index(next(filter(_is_title, lines))) :
        ]
        assert "WRONG evals/quiz.yaml::quiz[q2]" in summary
        assert sum(line.startswith("PASSED ") for line in summary) == 9
    for option in ("-ra", "-rf", "-rN"):
        result = mixed.run("evals/quiz.yaml", option, *workers)
        result.stdout.no_fnmatch_line("WRONG *")


def _is_title(line):
    return "short test summary info" in line


def test_the_short_summary_has_a_title_if_it_lists_documents_only(suite, monkeypatch):
    suite.knows(wrong=range(10))
    monkeypatch.chdir(suite.evals)
    result = suite.run("quiz.yaml", "-rp", model="scripted:../answers.jsonl")
    expected = ["*= short test summary info =*"]
    expected += [f"WRONG quiz.yaml::quiz[[]q{i}[]]" for i in range(10)]
    result.stdout.fnmatch_lines([*expected, "*= 10 wrong in *"], consecutive=True)
    assert (
        suite.run(".", "-rp", "--no-summary", model="scripted:../answers.jsonl").ret
        == 0
    )


@WORKERS
def test_the_short_summary_lists_inconclusive_gates(suite, workers):
    over = {"metric": "exact_match", "over": "population"}
    suite.task("quiz", gates=[{**over, "min": 0.7}])
    suite.knows(wrong=[1, 2])
    result = suite.run("evals", "-rp", *workers)
    result.stdout.fnmatch_lines(["INCONCLUSIVE evals/quiz.yaml::quiz::exact_match"])


@WORKERS
@pytest.mark.parametrize("folder", [".", "evals"])
def test_v_shows_a_named_document(mixed, monkeypatch, folder, workers):
    """The message of a failing gate proposes this command for running a document
    again."""
    mixed.knows(wrong=[2])
    text = (mixed.pytester.path / "answers.jsonl").read_text()
    hostile = text.replace('"nonsense"', '"non\\u001b[31msense' + "x" * 999 + '"')
    (mixed.pytester.path / "answers.jsonl").write_text(hostile)
    monkeypatch.chdir(mixed.pytester.path / folder)
    file = "evals/quiz.yaml" if folder == "." else "quiz.yaml"
    named = [f"{file}::quiz[{id_}]" for id_ in ("q2", "q3")]
    model = f"scripted:{mixed.pytester.path}/answers.jsonl"
    result = mixed.run(*named, "-v", *workers, model=model)
    shown = ["_* quiz[[]q2[]] *_", "the answer is wrong", "  prompt  quiz 2?"]
    shown += ["  answer  non\\x1b[[]31msensexxx*x…", "  target  a2"]
    result.stdout.fnmatch_lines(shown, consecutive=True)
    right = ["_* quiz[[]q3[]] *_", "  prompt  quiz 3?", "  answer  a3", "  target  a3"]
    result.stdout.fnmatch_lines(right, consecutive=True)
    for verbosity in ("-q", "--verbosity=0"):
        silent = mixed.run(*named, verbosity, *workers, model=model)
        silent.stdout.no_fnmatch_line("  prompt *")


@WORKERS
def test_vv_shows_all_wrong_documents(mixed, workers):
    mixed.knows(wrong=[2, 5])
    result = mixed.run("evals/quiz.yaml", "-vv", "--tb=no", *workers)
    prompts = [line for line in result.outlines if line.startswith("  prompt ")]
    assert sorted(prompts) == ["  prompt  quiz 2?", "  prompt  quiz 5?"]
    verbose = mixed.run("evals/quiz.yaml", "-v", "--tb=no", *workers)
    verbose.stdout.no_fnmatch_line("  prompt *")


def test_a_wrong_document_that_fails_is_shown_once(suite):
    suite.knows(wrong=[2])
    result = suite.run("evals/quiz.yaml::quiz[q2]", "-v", "--evals-strict")
    assert result.stdout.str().count("  prompt  quiz 2?") == 1


def test_lf_counts_no_document_as_deselected_that_runs_with_its_gate(mixed):
    mixed.pytester.path.joinpath("bad").unlink()
    mixed.run("evals")
    result = mixed.run("evals", "--lf")
    # the test of the folder passed, and is the only one that is left out
    expected = {"passed": 9, "wrong": 1, "failed": 1}
    assert result.parseoutcomes() in (expected, {**expected, "deselected": 1})
    result.stdout.fnmatch_lines(["run-last-failure: rerun previous 1 failure*"])


@WORKERS
def test_lf_judges_a_failed_gate_over_all_documents_if_a_document_failed_too(
    mixed, workers
):
    mixed.knows(wrong=[2], errors=[4])
    mixed.run("evals/quiz.yaml")
    mixed.knows()
    result = mixed.run("evals", "--lf", "evals/quiz.yaml", *workers)
    assert (result.ret, result.parseoutcomes()["passed"]) == (0, 11)
