"""``evals.lock``: written by ``--evals-prefetch``, compared by ``--evals-locked``."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest

MODEL = "--model=scripted:echo"
EVAL = """
task: sums
dataset_path: json
dataset_kwargs: {data_files: {test: sums.jsonl}}
test_split: test
output_type: generate_until
doc_to_text: !function prompts.text
doc_to_target: "{{a}}"
metric_list: [{metric: exact_match}]
"""
CODE = "from shared import q\n\ndef text(row):\n    return q(row)\n"
ROWS = [{"q": str(i), "a": str(i)} for i in range(3)]


@pytest.fixture
def sums(pytester):
    """A task whose prompts come from a module that imports another one; its lock is
    written."""
    pytester.makeini("[pytest]\npythonpath = .\n")
    write(pytester, "sums.yaml", EVAL)
    write(pytester, "prompts.py", CODE)
    write(pytester, "shared.py", "def q(row):\n    return row['q']\n")
    write(pytester, "sums.jsonl", "".join(json.dumps(one) + "\n" for one in ROWS))
    write(pytester, "metric.py", "# its name is only a key of the task's file\n")
    assert pytester.runpytest_subprocess(MODEL, "--evals-prefetch").ret == 0
    return pytester


def write(pytester, name, text):
    (pytester.path / name).write_text(text)


def locked(pytester, *arguments):
    return pytester.runpytest_subprocess(MODEL, "--evals-locked", *arguments)


def is_sent(pytester):
    return (pytester.path / ".evals").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments", [(), ("-n2",), ("--evals-limit=1",), ("--evals-shard=1/2",)]
)
def test_an_unchanged_suite_runs(sums, arguments):
    write(sums, "metric.py", "")
    result = locked(sums, *arguments)
    assert result.ret == 0 and is_sent(sums)


@pytest.mark.slow
def test_the_lock_does_not_depend_on_the_folder(sums, tmp_path):
    text = (sums.path / "evals.lock").read_text()
    assert str(sums.path) not in text
    assert [*json.loads(text)["tasks"]["sums"]["code"]] == ["prompts.py", "shared.py"]
    copied = shutil.copytree(sums.path, tmp_path / "copy")
    command = [sys.executable, "-m", "pytest", "--evals-validate", "--evals-locked"]
    assert subprocess.run(command, cwd=copied, check=False).returncode == 0


@pytest.mark.slow
def test_local_folders_of_models_are_compared(sums, tiny_model_path):
    model = f"--model=hf:{shutil.copytree(tiny_model_path, sums.path / 'tiny')}"
    sums.runpytest_subprocess(model, "--evals-prefetch")
    lock = json.loads((sums.path / "evals.lock").read_text())
    assert [*lock["folders"]] == ["tiny"]
    checked = ("--evals-validate", "--evals-locked")
    assert sums.runpytest_subprocess(model, *checked).ret == 0
    with (sums.path / "tiny" / "config.json").open("a") as file:
        file.write(" ")
    result = sums.runpytest_subprocess(model, *checked)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*folder tiny: files: * (for --model)"])


@pytest.mark.slow
def test_tasks_of_any_selected_model_are_compared(sums):
    write(sums, "sums.jsonl", json.dumps({"q": "7", "a": "7"}) + "\n")
    models = ("--model=a=scripted:echo", "--model=b=scripted:echo")
    result = sums.runpytest_subprocess(*models, "--evals-locked", "-k", "sums and b-")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert sum("in evals.lock" in one for one in result.errlines) == 3
    assert not is_sent(sums)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "old", "new", "kinds"),
    [
        ("sums.jsonl", '"2"', '"3"', ["prompts", "rows"]),
        ("sums.jsonl", '{"q": "2", "a": "2"}\n', "", ["documents", "prompts", "rows"]),
        ("shared.py", "row['q']", "row['q'] + '?'", ["code shared.py", "prompts"]),
        ("prompts.py", "def", "# why\ndef", ["code prompts.py"]),
        ("sums.yaml", "[{metric", "[{ignore_case: true, metric", ["settings"]),
    ],
)
def test_a_change_is_refused_before_anything_is_sent(sums, file, old, new, kinds):
    before = (sums.path / file).read_text()
    assert old in before
    write(sums, file, before.replace(old, new))
    result = locked(sums, *(["-n2"] if "documents" in kinds else []))
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    lines = [one.split(": ") for one in result.errlines if "in evals.lock" in one]
    assert [one[0].strip() for one in lines] == ["sums.yaml"] * len(kinds)
    assert sorted(one[2] for one in lines) == kinds
    assert not is_sent(sums)
    sums.runpytest_subprocess(MODEL, "--evals-prefetch")
    assert locked(sums).ret == 0


@pytest.mark.slow
def test_a_task_without_an_entry_and_a_broken_lock_are_refused(sums):
    path = sums.path / "evals.lock"
    lock = json.loads(path.read_text())
    for text, why in (
        (json.dumps(lock | {"tasks": {}}), "*sums.yaml: task sums: not in evals.lock"),
        ("<<<<<<< HEAD\n" + path.read_text(), "*evals.lock: Expecting value: line 1*"),
        ("[]", "*evals.lock: schema_version is not 1"),
    ):
        path.write_text(text)
        result = sums.runpytest_subprocess("--evals-validate", "--evals-locked")
        assert result.ret == 1
        result.stdout.fnmatch_lines([why, "*fix: *--evals-prefetch*"])
    path.unlink()
    result = locked(sums)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*evals.lock' does not exist"])
    assert not is_sent(sums)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("new", "expected"),
    [
        (
            "evals/sums.yaml",
            ["evals/sums.yaml: task sums: file: sums.yaml in evals.lock, "],
        ),
        ("sums.txt", ["sums.yaml: task sums: in evals.lock, but the file is missing"]),
    ],
)
def test_a_moved_and_a_removed_file_are_named(sums, new, expected):
    (sums.path / "evals").mkdir()
    for name in ("prompts.py", "sums.jsonl"):
        (sums.path / "evals" / name).write_text((sums.path / name).read_text())
    write(sums, "other.yaml", EVAL.replace("task: sums", "task: other"))
    sums.runpytest_subprocess(MODEL, "--evals-prefetch")
    (sums.path / "sums.yaml").rename(sums.path / new)
    result = locked(sums)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    for line in expected:
        assert line in result.stderr.str()


@pytest.mark.slow
def test_a_suite_with_problems_gets_no_lock(sums):
    (sums.path / "evals.lock").unlink()
    write(sums, "shared.py", "")
    result = sums.runpytest_subprocess(MODEL, "--evals-prefetch")
    result.stdout.fnmatch_lines(["evals.lock is not written"])
    assert result.ret == 1 and not (sums.path / "evals.lock").exists()
