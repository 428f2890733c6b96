"""LatticeFlow's files → tasks. ``tests/task_files/invalid/latticeflow`` contains one
file per case, with all its errors; ``valid/latticeflow`` is a whole project."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_evals.core.task import SuiteFiles, Task, TaskOptions
from pytest_evals.dialects.readers import eval_files, load_folder
from pytest_evals.errors import TaskFileError
from pytest_evals.guests.latticeflow.loader import entities_of, load_tasks
from pytest_evals.guests.latticeflow.suite import EntitySuite

FILES = Path(__file__).parents[2] / "task_files"
INVALID = sorted((FILES / "invalid" / "latticeflow").glob("*.yaml"))
VALID = FILES / "valid" / "latticeflow"


def faults(path: Path) -> str:
    """All problems of a file, its tasks and its datasets."""
    options = TaskOptions(base=str(path.parent), files=SuiteFiles())
    entities = entities_of(path, options)
    problems = []
    try:
        for task in load_tasks(path, options):
            task.rows.ids()
    except TaskFileError as error:
        problems += error.problems
    try:
        own = entities.in_file(path)
    except TaskFileError:
        own = ()
    suite = EntitySuite(entities=entities, options=options, listed=own)
    for one in own:
        if one.kind == "dataset":
            try:
                suite.rows(one.key, one.place)
            except TaskFileError as error:
                problems += error.problems
    return str(TaskFileError(dict.fromkeys(problems)))


@pytest.mark.parametrize("path", INVALID, ids=lambda path: path.stem)
def test_all_errors_of_a_file_are_reported_at_once(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(path.parent)
    assert faults(path) == path.with_suffix(".txt").read_text().rstrip("\n")


def test_each_case_has_its_message() -> None:
    assert INVALID
    assert all(path.with_suffix(".txt").read_text().strip() for path in INVALID)


def test_a_run_file_gives_a_task_for_each_specification() -> None:
    tasks = load_tasks(VALID / "run.yaml", TaskOptions(has_model=True))
    assert {task.name: list(task.rows.ids()) for task in tasks} == {
        "mcqa": ["l1", "l4"],
        "tools": ["t1", "t2", "t3", "t4", "t5"],
        "py": ["l1", "l4"],
        "agree": ["l1", "l4"],
        "sys": ["evidence"],
    }
    assert {task.name: task.asks_model for task in tasks} == {
        "mcqa": True,
        "tools": False,
        "py": True,
        "agree": False,
        "sys": False,
    }
    local = load_tasks(VALID / "run.yaml", TaskOptions())
    assert not any(task.asks_model for task in local)
    assert {name for task in local for name in task.models} == {"offline-echo"}


def test_policies_become_gates_of_the_tasks_that_have_such_a_number() -> None:
    """``gate`` of the run file: accuracy anywhere, and coverage in one task."""
    tasks = load_tasks(VALID / "run.yaml", TaskOptions())
    gates = {
        (task.name, gate.metric): (gate.id, gate.text)
        for task in tasks
        for gate in task.gates
    }
    rule = "Accuracy gate: accuracy >= 0.5"
    assert gates == {
        ("mcqa", "mcqa_accuracy_accuracy"): (
            "gate.acc-mcqa_accuracy_accuracy",
            rule,
        ),
        ("mcqa", "exact_accuracy_accuracy"): (
            "gate.acc-exact_accuracy_accuracy",
            rule,
        ),
        ("py", "binary_accuracy"): ("gate.acc-binary_accuracy", rule),
        ("py", "multi_accuracy"): ("gate.acc-multi_accuracy", rule),
        ("tools", "coverage"): (
            "gate.cov-exists",
            "Coverage exists: coverage exists",
        ),
    }


@pytest.mark.parametrize("path", sorted((VALID / "tasks").glob("*.yaml")), ids=str)
def test_each_task_of_the_project_can_be_read_by_itself(path: Path) -> None:
    """The judge is the session's; datasets come from the option."""
    given = {"ds": "letters", "left": "letters", "right": "letters"}
    if path.stem == "pass_through_tools":
        given = {}
    (task,) = load_tasks(path, TaskOptions(parameters=given, root=str(VALID)))
    assert task.rows.ids()


def test_a_task_is_left_to_a_run_file_that_is_collected_with_it() -> None:
    path = VALID / "tasks" / "system_check.yaml"
    options = TaskOptions(root=str(VALID))

    def load(*collected: Path) -> tuple[Task, ...]:
        files = SuiteFiles(collected=lambda: collected)
        return load_tasks(path, replace(options, files=files))

    assert load(VALID) == ()
    assert load(VALID / "run.yaml") == ()
    for collected in ((), (VALID / "tasks",)):
        (task,) = load(*collected)
        assert task.name == "system-check"
    run = [task.name for task in load_tasks(VALID / "run.yaml", options)]
    assert [one.name for one in load_folder(VALID, options, lambda _: None)] == run


def test_a_generator_makes_rows_of_those_of_a_dataset() -> None:
    """Two letters pass the filters of their dataset, and two adjectives each."""
    path = VALID / "run.yaml"
    options = TaskOptions()
    entities = entities_of(path, options)
    own = entities.in_file(path)
    (questions,) = (one for one in own if one.key == "made-questions")
    suite = EntitySuite(entities=entities, options=options, listed=own)
    rows = suite.rows("made-questions", questions.place)
    assert [row["text"] for row in rows] == [
        "Is A early?",
        "Is A late?",
        "Is Z early?",
        "Is Z late?",
    ]
    assert all("hint" not in row and row["answer"] in "AZ" for row in rows)
    assert [row["sample_id"] for row in rows] == ["0", "1", "2", "3"]


def test_names_are_looked_up_near_the_file_first(tmp_path: Path) -> None:
    for folder in ("", "a", "b"):
        place = tmp_path / folder
        place.mkdir(exist_ok=True)
        (place / "rows.jsonl").write_text(f'{{"sample_id": "{folder or "top"}"}}\n')
        (place / "rows.yaml").write_text(
            "key: rows\ndisplay_name: R\nsource: {type: local, file_path: rows.jsonl}\n"
        )
    (tmp_path / "c").mkdir()
    task = (
        "key: t\ndisplay_name: T\ndescription: D\n"
        "definition: {dataset: {key: rows}, scorers: []}\n"
    )
    options = TaskOptions(root=str(tmp_path))
    found = {}
    for folder in ("a", "c"):
        path = tmp_path / folder / "task.yaml"
        path.write_text(task)
        (one,) = load_tasks(path, options)
        try:
            found[folder] = list(one.rows.ids())
        except TaskFileError as error:
            found[folder] = [str(error.problems[0].message).partition(",")[0]]
    assert found == {"a": ["a"], "c": ["there is another dataset called 'rows'"]}


def test_code_of_files_outside_of_the_allowed_folders_is_refused(
    tmp_path: Path,
) -> None:
    shutil.copytree(VALID, tmp_path / "suite")
    path = tmp_path / "suite" / "tasks" / "system_check.yaml"
    inside = TaskOptions(code_roots=(str(tmp_path / "suite"),))
    assert load_tasks(path, inside)
    with pytest.raises(TaskFileError) as caught:
        load_tasks(path, TaskOptions(code_roots=(str(tmp_path / "other"),)))
    assert "Python files outside the suite are not executed" in str(caught.value)
    assert "fix: --evals-latticeflow-allow-code" in str(caught.value)


def test_a_file_that_a_run_refers_to_twice_is_one_entity(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "rows.jsonl").write_text('{"sample_id": "one"}\n')
    (tmp_path / "data" / "rows.yaml").write_text(
        "key: rows\ndisplay_name: R\nsource: {type: local, file_path: rows.jsonl}\n"
    )
    (tmp_path / "run.yaml").write_text(
        "datasets: [{$ref: data/rows.yaml}, {$ref: data/rows.yaml}]\n"
        "tasks: [{key: t, display_name: T, description: D, "
        "definition: {dataset: {key: rows}, scorers: []}}]\n"
    )
    (task,) = load_tasks(tmp_path / "run.yaml", TaskOptions())
    assert list(task.rows.ids()) == ["one"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "evaluation:\n",
            "evaluation: 7\nold:\n",
            "evaluation must be a mapping, not 7",
        ),
        ("  - key: sums\n", "  - key: [[sums]]\n", "key must be a string, not a list"),
        (
            "    task_key: add\n",
            "    task_key: [add]\n",
            "task_key must be a string, not a list",
        ),
        (
            "    - key: rule\n",
            "    - key: {a: 1}\n",
            "key must be a string, not a mapping",
        ),
    ],
)
def test_values_of_another_type_are_named_in_run_files(tmp_path, old, new, message):
    run = """evaluation:
  key: small
  display_name: S
  description: D
  task_specifications:
  - key: sums
    task_key: add
policies:
- key: release
  display_name: R
  rules:
    - key: rule
      display_name: R
      definition: {type: threshold, metric: accuracy, operator: ">=", threshold: 0.5}
"""
    assert old in run
    path = tmp_path / "run.yaml"
    path.write_text(run.replace(old, new))
    found = faults(path)
    line = run[: run.index(old)].count("\n") + 1
    assert f"{path.name}:{line}: {message}" in found


@pytest.mark.parametrize(
    ("key", "line"), [("definitoin", "4: "), ("something", "1: ")], ids=["near", "far"]
)
def test_a_task_without_a_definition_is_an_error(tmp_path, key, line):
    path = tmp_path / "task.yaml"
    start = "key: add\ndisplay_name: A\ntasks: [chat_completion]\n"
    path.write_text(f"{start}{key}: {{dataset: {{key: sums}}}}\n")
    found = faults(path)
    assert found.startswith(f"{path}:{line}a task needs a definition")
    hint = "; did you mean 'definition'?"
    assert found.endswith(hint) == (line == "4: ")
    assert eval_files(tmp_path)
