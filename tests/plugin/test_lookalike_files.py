"""Files that resemble eval files and are not collected as such."""

from __future__ import annotations

import json

import pytest

from pytest_evals import evaluate
from pytest_evals.errors import TaskFileError
from tests.plugin.test_api import Knowing

NO_TASK = "looks like a task file of lm-eval, but it has no 'task' key"


SHOWN = "-Wdefault::pytest.PytestCollectionWarning"
"""This project's tests turn warnings into errors."""


@pytest.fixture
def lost(suite):
    """A valid task, and a file that lacks its name and has no gates to lose."""
    path = suite.task("zoo")
    path.write_text(path.read_text().replace("task: zoo\n", ""))
    suite.knows(wrong=[0], tasks=["quiz", "zoo"])
    return suite


@pytest.mark.parametrize(
    "named",
    [
        ["evals/zoo.yaml"],
        ["evals/zoo.yaml::zoo"],
        ["evals/zoo.yaml::zoo[q1]"],
        ["evals", "evals/zoo.yaml"],
        ["evals/zoo.yaml", "-n2"],
        ["evals/zoo.yaml", "--evals-validate"],
        ["evals/zoo.yaml", "--collect-only"],
    ],
)
def test_a_named_lookalike_file_is_a_usage_error(lost, named):
    result = lost.run(*named, model="scripted:break")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [f"ERROR: evals/zoo.yaml:1: {NO_TASK}", "  fix: task: zoo"]
    )
    result.stderr.no_fnmatch_line("*not found*")


def test_all_named_lookalike_files_are_reported_at_once(lost):
    lost.group("bag", task={"quiz": 1}, gates=["exact_match >= 1"])
    result = lost.run("evals/bag.yaml", "evals/zoo.yaml")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["*evals/bag.yaml:*: looks like a group file*", "*evals/zoo.yaml:1: looks*"]
    )


@pytest.mark.parametrize("name", ["eval-bot.py", "bot.py"])
def test_evals_in_a_module_with_another_name_are_a_warning(suite, name):
    suite.task("quiz")
    (suite.evals / name).write_text(
        "import pytest_evals as ev\n\nROWS = [{'prompt': 'a', 'target': 'a'}]\n"
        "@ev.eval(rows=ROWS, score='exact')\ndef bot(prompt):\n    return prompt\n"
    )
    suite.knows()
    result = suite.run("evals", SHOWN)
    what = f"*evals/{name}:4: has evals, but its name is not that of a test module*"
    result.stdout.fnmatch_lines([what, "*fix: rename it to eval_*.py"])
    (suite.evals / name).rename(suite.evals / "eval_bot.py")
    assert "has evals, but" not in suite.run("evals", SHOWN).stdout.str()


@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_a_lookalike_file_in_a_folder_is_a_warning_with_its_line(lost, workers):
    result = lost.run("evals", workers, SHOWN)
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "*warnings summary*",
            f"*/evals/zoo.yaml:1: PytestCollectionWarning: evals/zoo.yaml:1: {NO_TASK}",
            "*fix: task: zoo",
        ]
    )


def test_the_warning_is_shown_if_nothing_is_collected(lost):
    (lost.evals / "quiz.yaml").unlink()
    result = lost.run("evals", SHOWN)
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    result.stdout.fnmatch_lines([f"*zoo.yaml:1: {NO_TASK}"])


def test_a_lookalike_file_is_an_error_if_warnings_are_errors(lost):
    result = lost.run("evals", "-Werror::pytest.PytestCollectionWarning")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert result.parseoutcomes()["errors"] == 1
    result.stdout.fnmatch_lines(
        ["*ERROR collecting evals/zoo.yaml*", f"evals/zoo.yaml:1: {NO_TASK}"]
    )
    result.stdout.no_fnmatch_line("*lost_files.py*")


EVAL = """\
prompt: "{{q}}"
rows: [{q: a, target: b}]
score: exact
owner: me
"""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (EVAL.replace("prompt", "promt"), 1),
        (EVAL.replace("prompt", "Prompt"), 1),
        (EVAL.replace("rows", "rowz"), 2),
        (EVAL.replace("prompt", "question") + "gates: [exact >= 1]\n", 1),
        (EVAL + "class: x\n", 5),
        ("task: zoo\nmetadata: {gates: [acc >= 0.5]}\n", 1),
    ],
)
def test_a_file_that_can_only_be_an_eval_is_an_error(lost, text, line):
    (lost.evals / "bot.yaml").write_text(text)
    result = lost.run("evals", SHOWN)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines([f"evals/bot.yaml:{line}: looks like *"])


WHOLE = {
    "prompt": "Say {{q}}",
    "rows": [{"q": "a", "target": "b"}],
    "gates": ["exact >= 0.5"],
}
NO_YAML = "looks like an eval, but its name does not end in .yaml"


@pytest.mark.parametrize(
    ("name", "text", "line", "fix"),
    [
        ("bot.json", json.dumps(WHOLE, indent=1), 9, "write it as YAML in bot.yaml"),
        ("bot.json", json.dumps(WHOLE), 1, "write it as YAML in bot.yaml"),
        ("bot.txt", EVAL, 1, "rename it to bot.yaml"),
        ("bot.toml", 'prompt = "{{q}}"\n[[rows]]\nq = "a"\n', 1, "write it as YAML *"),
        ("bot.txt", "gates: [quiz/exact_match >= 0.5]\n", 1, "rename it to gates.yaml"),
    ],
)
def test_an_eval_with_a_name_that_is_not_collected_is_a_warning(
    suite, name, text, line, fix
):
    (suite.evals / name).write_text(text)
    result = suite.run("evals", SHOWN)
    assert result.ret == 0
    what = "looks like a gates file, but *" if "gates.yaml" in fix else NO_YAML
    result.stdout.fnmatch_lines([f"*evals/{name}:{line}: {what}", f"*fix: {fix}"])


def test_json_and_text_files_of_other_programs_are_not_reported(suite):
    texts = {
        "package.json": '{"name": "app", "gates": {"a": 1}, "scripts": {"test": "x"}}',
        "rows.json": json.dumps([WHOLE, {"prompt": "a", "score": 1}]),
        "results.json": json.dumps({"task": "x", "results": {"a": WHOLE}}),
        "chat.json": '{"prompt": "Say {{q}}", "model": "m", "task": "chat"}',
        "broken.json": '{"prompt": "{{q}}", "rows": [',
        "deep.json": '{"prompt":' + "[" * 100_000,
        "notes.txt": "The prompt: say {{q}}\nrows: 3\nscore: 4\ngates: open\n",
        "setup.toml": '[tool.x]\nprompt = "a"\nrows = 3\n',
        "large.json": json.dumps(WHOLE | {"x": "y" * 300_000}),
    }
    for name, text in texts.items():
        (suite.evals / name).write_text(text)
    result = suite.run("evals", SHOWN)
    assert (result.ret, result.parseoutcomes()) == (0, {"passed": 10})


def test_validation_counts_a_lookalike_file_as_a_problem(lost):
    result = lost.run("evals", "--evals-validate")
    assert (result.ret, result.parseoutcomes()) == (1, {"passed": 1, "failed": 1})
    result.stdout.fnmatch_lines([f"*evals/zoo.yaml:1: {NO_TASK}"])


def test_an_included_file_is_not_a_lookalike(suite):
    path = suite.task("quiz", gates=["exact_match >= 0.5"])
    text = path.read_text().replace("task: quiz\n", "")
    (suite.evals / "_base.yaml").write_text(text)
    sub = suite.evals / "sub"
    sub.mkdir()
    path.rename(sub / "quiz.yaml").write_text("task: quiz\ninclude: ../_base.yaml\n")
    result = suite.run("evals")
    assert result.ret == 0
    assert "warnings" not in result.parseoutcomes()
    assert suite.run("evals/_base.yaml").ret == pytest.ExitCode.USAGE_ERROR


def test_unrelated_yaml_files_are_not_parsed(suite):
    (suite.evals / "ci.yml").write_text("on: push\njobs: {a: {steps: [*x]}}\n")
    (suite.evals / "tasks.yml").write_text("version: 3\ntasks: {a: {cmds: [b]}}\n")
    result = suite.run("evals")
    assert (result.ret, result.parseoutcomes()) == (0, {"passed": 10})
    named = suite.run("evals/ci.yml")
    assert named.ret == pytest.ExitCode.USAGE_ERROR
    named.stderr.fnmatch_lines(["ERROR: *ci.yml is not an eval file"])


@pytest.mark.slow
def test_a_repository_without_evals_imports_no_yaml_for_its_files(pytester):
    (pytester.path / "ci.yml").write_text("on: push\n")
    (pytester.path / "gates.yaml").write_text("gates: [open]\n")
    pytester.makepyfile(
        "import sys\ndef test_it(): assert not {'yaml', 'jinja2'} & {*sys.modules}"
    )
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)


def test_a_gates_file_without_tasks_is_a_warning(suite):
    conf = suite.evals / "conf"
    conf.mkdir()
    (conf / "gates.yaml").write_text("gates: [quiz/exact_match >= 0.99]\n")
    suite.knows(wrong=[1])
    result = suite.run("evals")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        ["*evals/conf/gates.yaml:1: no task is in this folder or below, so the gates *"]
    )
    named = suite.run("evals/conf/gates.yaml")
    assert named.ret == pytest.ExitCode.USAGE_ERROR
    named.stderr.fnmatch_lines(["*looks like a gates file, which is read with the*"])


def test_a_misnamed_gates_file_is_a_warning(suite):
    (suite.evals / "gate.yaml").write_text("gates: [quiz/exact_match >= 0.99]\n")
    result = suite.run("evals", SHOWN)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*gate.yaml:1: looks like a gates file, but only *"])


def test_a_file_of_another_plugin_is_not_a_lookalike(lost):
    lost.pytester.makeconftest(
        """
        import pytest

        class Own(pytest.File):
            def collect(self):
                return []

        def pytest_collect_file(file_path, parent):
            if file_path.name == "zoo.yaml":
                return Own.from_parent(parent, path=file_path)
        """
    )
    result = lost.run("evals")
    assert result.parseoutcomes() == {"passed": 9, "wrong": 1}


def test_evaluate_refuses_named_lookalike_files_and_warns_about_others(
    lost, monkeypatch
):
    monkeypatch.chdir(lost.pytester.path)
    with pytest.raises(TaskFileError) as error:
        evaluate("evals/zoo.yaml", Knowing())
    assert str(error.value).startswith(f"evals/zoo.yaml:1: {NO_TASK}")
    found = evaluate("evals", Knowing()).warnings
    assert [one for one in found if NO_TASK in one]


def test_a_list_of_other_things_is_not_an_eval(suite):
    """The text of an entry contains the keys of an eval; only an entry that is an eval
    with gates is reported."""
    text = "- mistake: m\n  edit:\n    q.yaml:\n    - 'score: exact'\n  gates: none\n"
    (suite.evals / "mistakes.yaml").write_text(text)
    assert suite.run("evals").ret == 0
    eval_ = "- prompt: '{{q}}'\n  rows: [{q: a, target: a}]\n  gates: [exact >= 0.9]\n"
    (suite.evals / "mistakes.yaml").write_text(eval_)
    result = suite.run("evals")
    assert result.ret == 2
    result.stdout.fnmatch_lines(["*remove the dash before its first key*"])
