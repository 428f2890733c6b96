"""Gates are checked before a model is loaded, however the session is started."""

from __future__ import annotations

import pytest
import yaml

from pytest_evals import evaluate
from pytest_evals.errors import OptionError, TaskFileError
from tests.plugin.test_api import Knowing

WAYS = {
    "folder": ["evals"],
    "file": ["evals/quiz.yaml"],
    "task": ["evals/quiz.yaml::quiz"],
    "document": ["evals/quiz.yaml::quiz[q1]"],
    "selection": ["evals", "--evals-tasks=quiz"],
    "workers": ["evals/quiz.yaml", "-n2"],
    "keyword": ["evals", "-k", "q3"],
    "collect-only": ["evals/quiz.yaml", "--collect-only"],
    "plan": ["evals/quiz.yaml", "--evals-plan"],
}


@pytest.fixture(params=WAYS.values(), ids=WAYS)
def way(request):
    return request.param


@pytest.fixture
def both(suite):
    """Two tasks, of which only one is collected when its file is named."""
    suite.task("zoo")
    suite.knows(tasks=["quiz", "zoo"])
    return suite


def gates(suite, *entries, name="gates.yaml"):
    text = "gates:\n" + "".join(f"  - {entry}\n" for entry in entries)
    (suite.evals / name).write_text(text)


def refused(result, *lines):
    assert result.ret == pytest.ExitCode.USAGE_ERROR, result.stdout.str()
    result.stderr.fnmatch_lines([*lines])


def test_a_gates_file_that_names_an_unknown_task_is_refused(both, way):
    gates(both, "zoo/exact_match >= 0.5", "quis/exact_match >= 0.5")
    result = both.run(*way, model="scripted:break")
    refused(result, "*evals/gates.yaml:3: unknown task 'quis'; did you mean 'quiz'?")


def test_a_gates_file_may_name_tasks_that_are_not_collected(both, way):
    both.group("bag", task=["zoo"])
    gates(both, "zoo/exact_match >= 0.5", "{task: bag, metric: exact_match, min: 0.5}")
    assert both.run(*way).ret == 0


def test_a_gates_file_in_a_parent_folder_is_checked(both):
    (both.pytester.path / "gates.yaml").write_text("gates: [quis/exact_match >= 0.5]\n")
    result = both.run("evals/quiz.yaml")
    refused(result, "*gates.yaml:1: unknown task 'quis'; did you mean 'quiz'?")


def test_tasks_of_a_package_are_named_by_their_module(both, monkeypatch):
    (both.evals / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(both.pytester.path)
    gates(both, "quis/exact_match >= 0.5")
    result = both.run("--pyargs", "evals")
    refused(result, "*gates.yaml:2: unknown task 'quis'; did you mean 'quiz'?")


def test_validation_reports_an_unknown_task_of_a_gate(both):
    gates(both, "quis/exact_match >= 0.5")
    for place in ("evals", "evals/quiz.yaml", "evals/quiz.yaml::quiz"):
        result = both.run(place, "--evals-validate")
        assert result.ret == 1
        result.stdout.fnmatch_lines(["*gates.yaml:2: unknown task 'quis'; did you*"])


@pytest.mark.parametrize("source", ["evals", "evals/quiz.yaml"])
def test_evaluate_refuses_gates_of_unknown_tasks(both, source, monkeypatch):
    monkeypatch.chdir(both.pytester.path)
    gates(both, "zoo/exact_match >= 0.5")
    assert evaluate("evals/quiz.yaml", Knowing()).verdicts == ()
    gates(both, "quis/exact_match >= 0.5")
    with pytest.raises(OptionError, match=r"gates\.yaml:2: unknown task 'quis'"):
        evaluate(source, Knowing())


def test_a_gate_of_an_incomplete_file_is_refused(both):
    both.evals.joinpath("cut.yaml").write_text("task: cut\nprompt:\n  - {role: us")
    gates(both, "cut/exact >= 0.5")
    for place in ("evals", "evals/quiz.yaml"):
        result = both.run(place)
        refused(
            result,
            "*gates.yaml:2: the task 'cut' is not collected: *cut.yaml is not a "
            "complete task file",
        )


def test_one_file_runs_if_a_gates_file_names_evals_in_others(both):
    rows = "prompt: '{{q}}'\nrows: [{q: one, target: two}]\n"
    both.evals.joinpath("short.yaml").write_text(rows)
    both.evals.joinpath("eval_bot.py").write_text(
        "import pytest_evals as ev\n\n\n@ev.eval(score=ev.exact())\n"
        "def bot():\n    yield ev.case('one', target='two')\n"
    )
    gates(both, "short/exact >= 0.5", "bot/exact >= 0.5", "quiz/exact_match >= 0.5")
    both.run("evals/quiz.yaml").assert_outcomes(passed=11)


def test_a_gate_of_a_task_outside_its_folder_is_refused(both):
    other = both.pytester.mkdir("other")
    (other / "gates.yaml").write_text("gates: [quiz/exact_match >= 0.99]\n")
    (other / "own.yaml").write_text(
        (both.evals / "quiz.yaml").read_text().replace("task: quiz", "task: own")
    )
    (other / "quiz.jsonl").write_text((both.evals / "quiz.jsonl").read_text())
    both.knows(tasks=["quiz", "zoo", "own"])
    for places in (["other"], ["other", "evals"]):
        result = both.run(*places)
        refused(
            result,
            "*other/gates.yaml:1: a gates file is for tasks in its folder and below, "
            "and 'quiz' is in evals/quiz.yaml",
        )


def test_a_gate_on_a_tag_is_refused(both):
    both.task("quiz", tag="easy")
    gates(both, "easy/exact_match >= 0.5")
    refused(both.run("evals/zoo.yaml"), "*'easy' is a tag*tasks with this tag: quiz")


def test_a_task_name_that_a_python_module_may_define_is_a_warning(both):
    (both.evals / "eval_own.py").write_text("TASKS_TABLE = []\n")
    gates(both, "unknown/exact_match >= 0.5")
    result = both.run("evals/quiz.yaml")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        ["*unknown task 'unknown'; it may be among *eval_own.py*"]
    )


GROUP = {"task": ["quiz", "zoo"]}


def test_faulty_gates_of_a_group_next_to_a_task_are_refused(both, way):
    both.group("bag", **GROUP, gates=["exact_mach >= 0.5", "exact_match >= 75"])
    refused(
        both.run(*way),
        "*evals/bag.yaml:*: unknown metric 'exact_mach' of group 'bag'; did *",
        "*evals/bag.yaml:*: exact_match is between 0 and 1, so >= 75 never*",
    )


def test_a_malformed_gate_of_a_group_next_to_a_task_is_refused(both, way):
    both.group("bag", **GROUP, gates=["exact_match => 0.5"])
    result = both.run(*way)
    if way[0] == "evals" and "--evals-tasks=quiz" not in way:  # an unreadable file
        assert result.ret == pytest.ExitCode.INTERRUPTED
    else:
        refused(result, "*evals/bag.yaml:*: *unknown operator '=>'; did you mean '>='?")


def test_a_faulty_gate_of_a_group_above_a_task_is_refused(both):
    sub = both.evals / "sub"
    sub.mkdir()
    for name in ("quiz.yaml", "quiz.jsonl"):
        (both.evals / name).rename(sub / name)
    both.group("bag", task=["quiz"], gates=["exact_mach >= 0.5"])
    refused(both.run("evals/sub"), "*evals/bag.yaml:*: unknown metric*")


def test_an_invalid_group_without_the_collected_tasks_is_a_warning(both):
    both.group("bag", task=["zoo", "nowhere"], gates=["exact_match >= 0.5"])
    result = both.run("evals/quiz.yaml")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*unknown task, group or tag 'nowhere'*"])


def test_gates_of_an_uncollected_group_are_a_warning(both):
    both.group("bag", **GROUP, gates=["exact_match >= 0.5"])
    result = both.run("evals/quiz.yaml", "evals/zoo.yaml")
    assert (result.ret, result.parseoutcomes()) == (0, {"passed": 20})
    result.stdout.fnmatch_lines(
        [
            "*evals/bag.yaml:1: group 'bag' was not collected, so its gates are not "
            "evaluated: exact_match*",
        ]
    )
    whole = both.run("evals")
    assert whole.parseoutcomes() == {"passed": 21}
    whole.stdout.no_fnmatch_line("*was not collected*")


def test_a_group_without_gates_next_to_a_task_is_not_read(both):
    both.group("bag", task=["quiz", "nowhere"])
    assert both.run("evals/quiz.yaml").ret == 0


FAULTY = {
    "exact_match >= 0": "exact_match is between 0 and 1, so >= 0 always holds*",
    "exact_match > 1": "exact_match is between 0 and 1, so > 1 never holds*",
    "exact_match >= 75": "*never holds; did you mean >= 75%?",
    "{metric: exact_match, baseline: main, max_drop: 2}": (
        "*so drop <= 2 always holds; did you mean max_drop: 0.02?"
    ),
    "accuracy >= 0.5": "unknown metric 'accuracy'; the task has exact_match",
    "exact_mach >= 0.5": "*did you mean 'exact_match'? the task has exact_match",
}


def test_gates_that_can_never_fail_are_refused_with_their_lines(suite, way):
    path = suite.task("quiz")
    first = len(path.read_text().splitlines()) + 2
    with path.open("a") as file:
        file.write("gates:\n" + "".join(f"  - {gate}\n" for gate in FAULTY))
    result = suite.run(*way, model="scripted:break")
    faults = enumerate(FAULTY.values(), first)
    refused(result, *(f"*evals/quiz.yaml:{line}: {fault}" for line, fault in faults))
    assert not (suite.pytester.path / ".evals").exists()


def test_one_gate_that_can_never_fail_is_refused(suite):
    suite.task("quiz", gates=["exact_match >= 0"])
    refused(suite.run("evals"), "ERROR: evals/quiz.yaml:13: exact_match is between *")


def test_evaluate_refuses_a_gate_that_can_never_fail(suite, monkeypatch):
    monkeypatch.chdir(suite.pytester.path)
    suite.task("quiz", gates=["exact_match >= 0", "accuracy >= 0.5"])
    with pytest.raises(TaskFileError) as error:
        evaluate("evals", Knowing())
    assert "evals/quiz.yaml:13: exact_match is between 0 and 1" in str(error.value)
    assert "evals/quiz.yaml:14: unknown metric 'accuracy'" in str(error.value)


def test_all_errors_of_all_gates_are_reported_at_once(both):
    both.task("quiz", gates=["exact_match >= 0"])
    both.task("zoo", gates=["accuracy >= 0.5"])
    gates(both, "quis/exact_match >= 0.5")
    refused(
        both.run("evals", "--evals-gate=exact_match <= 1"),
        "ERROR: evals/quiz.yaml:13: exact_match is between 0 and 1*",
        "--evals-gate: exact_match is between 0 and 1, so <= 1 always holds*",
        "evals/zoo.yaml:13: unknown metric 'accuracy'*",
        "evals/gates.yaml:2: unknown task 'quis'*",
    )


HOOKS = [
    "def pytest_evals_metrics(task, records): return {'accuracy': 0.8}",
    "from pytest_evals import Score\n"
    "def pytest_evals_score(record, task):\n"
    "    return [Score(metric='accuracy', value=1.0)]\n",
]


@pytest.mark.parametrize("hook", HOOKS, ids=["metrics", "score"])
@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_a_metric_that_a_hook_may_add_is_accepted(suite, hook, workers):
    (suite.evals / "conftest.py").write_text(hook)
    suite.task("quiz", gates=["accuracy >= 0.5"])
    result = suite.run("evals", workers)
    assert (result.ret, result.parseoutcomes()["passed"]) == (0, 11)


@pytest.mark.slow
def test_a_controller_detects_a_score_hook_in_a_subfolder(suite):
    """It loads no conftest.py there, and collects no tests itself."""
    sub = suite.evals / "sub"
    sub.mkdir()
    (sub / "conftest.py").write_text(HOOKS[1])
    suite.task("quiz", gates=["accuracy >= 0.5"])
    for name in ("quiz.yaml", "quiz.jsonl"):
        (suite.evals / name).rename(sub / name)
    result = suite.run("evals", "-n2")
    assert (result.ret, result.parseoutcomes()["passed"]) == (0, 11)


def test_an_accuracy_of_a_users_function_may_have_any_range(suite):
    """The warning is about a suspicious proportion; the gate is judged."""
    (suite.evals / "own.py").write_text(
        "def score(doc, results):\n"
        "    return {'exact_match': 100 * (results[0] == doc['answer'])}\n"
    )
    path = suite.task("quiz", gates=["exact_match >= 75"])
    path.write_text(path.read_text() + "process_results: !function own.score\n")
    result = suite.run("evals")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        ["*exact_match is between 0 and 1, so >= 75 never holds*as usual*"]
    )


def test_a_group_gate_is_checked_against_the_ranges_of_all_tasks(both):
    (both.evals / "own.py").write_text("def score(doc, results): return 7\n")
    metric = [{"metric": "exact_match"}]
    path = both.task("zoo")
    config = yaml.safe_load(path.read_text()) | {"metric_list": metric}
    path.write_text(
        yaml.safe_dump(config) + "process_results: !function own.of_document\n"
    )
    (both.evals / "own.py").write_text(
        "def of_document(doc, results): return {'exact_match': 7}\n"
    )
    both.group("bag", **GROUP, gates=["exact_match >= 3"])
    assert both.run("evals").ret == 0
    both.task("zoo")
    refused(both.run("evals"), "*evals/bag.yaml:*: exact_match is between 0 and 1*")


def test_an_assert_gate_that_can_never_fail_fails_its_test(suite):
    suite.task("quiz")
    suite.pytester.makepyfile(
        """
        from pytest_evals import assert_gate

        def test_it(eval_results):
            assert_gate("quiz/exact_match >= 0", eval_results)
        """
    )
    result = suite.run()
    assert result.ret == 1
    result.stdout.fnmatch_lines(["E*test_*.py:4: exact_match is between 0 and 1*"])


def test_a_gates_file_that_is_a_broken_symlink_is_refused(suite):
    (suite.evals / "gates.yaml").symlink_to("nowhere.yaml")
    result = suite.run("evals")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["*gates.yaml: this is a link to nowhere.yaml*"])
