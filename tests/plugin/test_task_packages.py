"""Task files of installed packages are found by ``--evals-tasks``."""

import json
import sys

import pytest

from tests.messages.cases import LIGHTEVAL, QUIZ

ROWS = '{"q": "red?", "a": "red"}\n{"q": "blue?", "a": "red"}\n'
BROKEN = "raise RuntimeError('imported')\n"


@pytest.fixture
def packages(pytester, monkeypatch):
    """Packages with the names of lm-eval and lighteval, which fail if imported."""
    site = pytester.mkdir("site")
    lm_eval = site / "lm_eval" / "tasks" / "quizzes"
    lighteval = site / "lighteval" / "tasks" / "tasks"
    for folder in (lm_eval, lighteval / "rows"):
        folder.mkdir(parents=True)
    (site / "lm_eval" / "__init__.py").write_text(BROKEN)
    (site / "lighteval" / "__init__.py").write_text(BROKEN)
    (lm_eval / "quiz.yaml").write_text(QUIZ.replace("task: quiz", "task: lm_quiz"))
    (lm_eval / "rows.jsonl").write_text(ROWS)
    (lighteval / "light.py").write_text(LIGHTEVAL.replace('"quiz"', '"light_quiz"'))
    (lighteval / "rows" / "test.jsonl").write_text(ROWS)
    for name, version in (("lm_eval", "0.4.13"), ("lighteval", "0.13.0")):
        info = site / f"{name}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Name: {name}\nVersion: {version}\n")
        monkeypatch.delitem(sys.modules, name, raising=False)  # of an earlier test
    monkeypatch.syspath_prepend(str(site))
    work = pytester.mkdir("work")
    (work / "pytest.ini").write_text("[pytest]\n")
    monkeypatch.chdir(work)
    return work


@pytest.mark.parametrize(
    "task", ["lm_quiz", pytest.param("light_quiz", marks=pytest.mark.guests)]
)
@pytest.mark.parametrize("path", [[], ["--evals-include-path=lm_eval,lighteval"]])
def test_tasks_of_installed_packages_are_found_without_importing_them(
    pytester, packages, task, path
):
    found = pytester.runpytest("--model=scripted:echo", f"--evals-tasks={task}", *path)
    found.stdout.fnmatch_lines(
        [
            "evals: 1 task, 2 documents*tasks of lm_eval 0.4.13*tasks of lighteval*",
            "documents: * wrong",
        ]
    )


def test_the_suite_defines_a_name_before_installed_packages_do(pytester, packages):
    (packages / "own.yaml").write_text(QUIZ.replace("task: quiz", "task: lm_quiz"))
    rows = [json.dumps({"q": f"{n}?", "a": "a"}) for n in range(3)]
    (packages / "rows.jsonl").write_text("\n".join(rows))
    found = pytester.runpytest("--model=scripted:echo", "--evals-tasks=lm_quiz")
    found.stdout.fnmatch_lines(["evals: 1 task, 3 documents*"])
    found.stdout.no_fnmatch_line("*tasks of lm_eval*")


def test_without_packages_the_message_names_them(pytester, packages, monkeypatch):
    name = "pytest_evals.dialects.task_index.packages.find_spec"
    monkeypatch.setattr(name, lambda package: None)
    found = pytester.runpytest("--model=scripted:echo", "--evals-tasks=hellaswag")
    assert found.ret == pytest.ExitCode.USAGE_ERROR
    found.stderr.fnmatch_lines(
        [
            "*unknown task, group or tag 'hellaswag'*",
            "*fix: task files of benchmarks are not part of this package; install*",
        ]
    )


def test_a_task_named_in_place_of_a_file_has_a_fix(pytester, packages):
    found = pytester.runpytest("--model=scripted:echo", "hellaswag")
    found.stderr.fnmatch_lines(["*fix: if it is a task, write --evals-tasks=hellaswag"])
