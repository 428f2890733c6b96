"""The results folder."""

import json
import subprocess
import sys

import pytest

from pytest_evals.errors import StoreError
from pytest_evals.store.folder import RunFolder

# 2026-09-04 10:15:02 UTC, by `date -u -d @1788516902`.
STARTED = 1788516902.5


def test_nothing_is_on_disk_until_something_is_written(tmp_path):
    folder = RunFolder(tmp_path / ".evals", "hf:gpt2", STARTED)
    assert folder.path is None
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("hf:gpt2", "20260904-101502-gpt2"),
        ("hf:acme/llm-8b,revision=rc2,token=s3cret", "20260904-101502-llm-8b"),
        ("hf:/models/tiny/", "20260904-101502-tiny"),
        ("my model?", "20260904-101502-my__model__"),
        ("", "20260904-101502-model"),
        ("hf:" + "x" * 300, "20260904-101502-" + "x" * 107 + "-0d4e2ca9e9cb"),
        ("serve:vllm serve org/m --port {port},api=chat", "20260904-101502-m"),
        ("serve:FLAGS='a b' python3 'my app.py'", "20260904-101502-python3"),
    ],
)
def test_the_folder_is_called_after_time_and_model(tmp_path, model, name):
    folder = RunFolder(tmp_path, model, STARTED)
    folder.write("results.json", {"n": 1})
    assert folder.path == tmp_path / "runs" / name
    assert json.loads((folder.path / "results.json").read_text()) == {"n": 1}


def test_two_sessions_at_once_get_a_folder_each(tmp_path):
    first, second = (RunFolder(tmp_path, "hf:gpt2", STARTED) for _ in range(2))
    first.write("results.json", {"session": 1})
    second.write("results.json", {"session": 2})
    assert first.path.name == "20260904-101502-gpt2"
    assert second.path.name == "20260904-101502-gpt2-2"
    assert json.loads((first.path / "results.json").read_text()) == {"session": 1}


@pytest.mark.slow
def test_many_processes_at_once_never_share_a_folder(tmp_path):
    code = (
        "import sys; from pathlib import Path\n"
        "from pytest_evals.store.folder import RunFolder\n"
        f"f = RunFolder(Path(sys.argv[1]), 'hf:gpt2', {STARTED})\n"
        "f.write('results.json', {}); print(f.path)"
    )
    command = [sys.executable, "-c", code, str(tmp_path / ".evals")]
    started = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)
    ]
    paths = [process.communicate()[0] for process in started]
    assert len(set(paths)) == 4
    assert all(process.returncode == 0 for process in started)


def test_samples_are_appended_line_by_line_in_a_file_per_task(tmp_path):
    folder = RunFolder(tmp_path, "m", STARTED)
    folder.append_samples("mmlu-pro/law", ['{"n": 1}'])
    folder.append_samples("mmlu-pro/law", ['{"n": 2, "text": "ü\\n"}'])
    # lm-eval's sanitize_task_name makes "_" of all but word characters.
    lines = (folder.path / "samples_mmlu_pro_law.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line) for line in lines] == [{"n": 1}, {"n": 2, "text": "ü\n"}]


def test_tasks_whose_names_differ_little_do_not_share_a_file(tmp_path):
    folder = RunFolder(tmp_path, "m", STARTED)
    for task in ("a:b", "a/b", "A_B", "a:b"):
        folder.append_samples(task, [json.dumps({"task": task})])
    assert {p.name: p.read_text().count("\n") for p in folder.path.iterdir()} == {
        "samples_a_b.jsonl": 2,
        "samples_a_b-2.jsonl": 1,
        "samples_A_B-3.jsonl": 1,
    }


def test_names_in_any_script_fit_into_255_bytes(tmp_path):
    folder = RunFolder(tmp_path, "hf:" + "模" * 200, STARTED)
    folder.append_samples("任务" * 200, ["{}"])
    assert len(folder.path.name) > 20


def test_git_sees_baselines_and_nothing_else(tmp_path):
    def git(*command):
        return subprocess.run(
            ["git", *command], cwd=tmp_path, check=True, capture_output=True, text=True
        ).stdout.splitlines()

    git("init", "-q")
    RunFolder(tmp_path / ".evals", "m", STARTED).write("results.json", {})
    assert git("status", "--porcelain", "-uall") == []
    baseline = tmp_path / ".evals" / "baselines" / "main"
    baseline.mkdir(parents=True)
    (baseline / "results.json").write_text("{}")
    (tmp_path / ".evals" / "responses.sqlite").write_text("")
    assert git("status", "--porcelain", "-uall") == [
        "?? .evals/baselines/main/results.json"
    ]


def test_a_folder_that_holds_other_things_gets_no_gitignore(tmp_path):
    (tmp_path / "mine.txt").write_text("")
    RunFolder(tmp_path, "m", STARTED).write("results.json", {})
    assert not (tmp_path / ".gitignore").exists()


def test_a_folder_without_write_permission_is_an_error_with_a_fix(tmp_path):
    (tmp_path / ".evals").write_text("a file in the place of the folder")
    with pytest.raises(StoreError) as caught:
        RunFolder(tmp_path / ".evals", "m", STARTED).append_samples("t", ["{}"])
    assert str(caught.value) == (
        f"cannot make the folder '{tmp_path / '.evals'}': it is a file, not a folder\n"
        "  fix: make room or make it writable, or choose another place with --evals-dir"
    )
