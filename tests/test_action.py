"""The shell steps of ``action.yml``, run as GitHub runs them, with other programs in
place of pytest, pip, git and gh."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
ACTION = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
STEPS = {one["name"]: one for one in ACTION["runs"]["steps"] if "run" in one}


class Runner:
    """A folder with programs that record their arguments."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.bin = folder, folder / "bin"
        self.bin.mkdir()
        self.log, self.output = folder / "log", folder / "output"
        for name in ("pytest", "python", "git", "gh"):
            self.program(name)

    def program(self, name: str, then: str = "") -> None:
        path = self.bin / name
        path.write_text(f'#!/bin/bash\nprintf "{name}" >> {self.log}\n')
        with path.open("a") as file:
            file.write(f'printf " <%s>" "$@" >> {self.log}; echo >> {self.log}\n{then}')
        path.chmod(0o755)

    def step(self, name: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run a step as GitHub does: bash -eo pipefail."""
        return subprocess.run(
            ["bash", "--norc", "-eo", "pipefail", "-c", STEPS[name]["run"]],
            cwd=self.folder,
            env={
                "PATH": f"{self.bin}{os.pathsep}{os.environ['PATH']}",
                "GITHUB_OUTPUT": str(self.output),
                "GITHUB_REPOSITORY": "org/name",
                "GITHUB_SHA": "c0ffee",
                "GITHUB_ACTION_PATH": "/action",
                **env,
            },
            capture_output=True,
            text=True,
            check=False,
        )

    def run(self, event: str, args: str = "") -> str:
        env = {"MODEL": "hf:a b", "EVALS": "my evals", "BASELINE": "main"}
        done = self.step("Run", GITHUB_EVENT_NAME=event, ARGS=args, **env)
        assert done.returncode == 0, done.stderr
        return self.log.read_text() + done.stdout


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    return Runner(tmp_path)


@pytest.fixture
def baseline(runner: Runner) -> None:
    folder = runner.folder / ".evals" / "baselines" / "main"
    folder.mkdir(parents=True)
    (folder / "results.json").write_text("{}")


def test_the_workflow_of_the_docs_uses_inputs_of_the_action():
    page = (ROOT / "docs" / "ci.md").read_text("utf-8")
    text = page.partition("<!-- action -->\n```yaml\n")[2].partition("```")[0]
    steps = yaml.safe_load(text)["jobs"]["evals"]["steps"]
    assert {*steps[-1]["with"]} <= {*ACTION["inputs"]}
    assert steps[0]["with"]["fetch-depth"] == 0  # for the merge base


def test_inputs_reach_the_shell_as_variables_only():
    assert not [name for name, one in STEPS.items() if "${{" in one["run"]]


def test_a_pull_request_is_compared_with_the_baseline(runner, baseline):
    shown = runner.run("pull_request", "-n 4 -k *")
    assert "pytest <my evals> <--model=hf:a b>" in shown
    assert "<--evals-compare=main> <-n> <4> <-k> <*>" in shown
    assert "save-baseline" not in shown


def test_without_a_baseline_nothing_is_compared_and_a_notice_says_so(runner):
    shown = runner.run("pull_request")
    assert "--evals-compare" not in shown
    assert "::notice::no baseline 'main' yet" in shown


def test_a_push_saves_the_baseline(runner, baseline):
    shown = runner.run("push")
    assert "<--evals-save-baseline=main>" in shown
    assert "--evals-compare" not in shown


def test_the_exit_code_of_pytest_is_that_of_the_last_step(runner):
    runner.program("pytest", "exit 1")
    runner.run("schedule")
    assert runner.output.read_text() == "status=1\n"
    assert runner.step("Result", STATUS="1").returncode == 1
    assert runner.step("Result", STATUS="0").returncode == 0


def test_the_base_of_a_pull_request_is_the_merge_base(runner):
    runner.program("git", "echo ba5e")
    runner.step("Find the base", GITHUB_BASE_REF="main")
    runner.step("Find the base")
    assert runner.output.read_text() == "sha=ba5e\nsha=c0ffee\n"
    assert "git <merge-base> <origin/main> <HEAD>" in runner.log.read_text()


@pytest.mark.parametrize(
    ("extras", "wanted"), [("", "</action>"), ("hf,ray", "</action[hf,ray]>")]
)
def test_the_plugin_is_installed_from_the_action(runner, extras, wanted):
    runner.step("Install", EXTRAS=extras)
    assert runner.log.read_text().endswith(f"{wanted}\n")


@pytest.mark.parametrize(
    ("found", "call"),
    [
        ("echo 41; echo 42", "<PATCH> <repos/org/name/issues/comments/42>"),
        ("true", "<POST> <repos/org/name/issues/7/comments>"),
    ],
)
def test_the_comment_is_updated_in_place(runner, found, call):
    (runner.folder / "evals.md").write_text("3 gates passed")
    runner.program("gh", f'if [ "$2" = --paginate ]; then {found}; fi')
    done = runner.step("Comment", NUMBER="7", GH_TOKEN="t")
    assert done.returncode == 0, done.stderr
    assert call in runner.log.read_text()
    text = (runner.folder / "evals_comment.md").read_text()
    assert text == "<!-- pytest-model-evals -->\n3 gates passed"


def test_a_comment_that_is_not_permitted_is_a_warning(runner):
    (runner.folder / "evals.md").write_text("3 gates passed")
    runner.program("gh", "exit 1")
    done = runner.step("Comment", NUMBER="7", GH_TOKEN="t")
    assert done.returncode == 0
    assert "::warning::the comment was not written" in done.stdout


def test_a_run_without_a_report_has_no_comment(runner):
    assert runner.step("Comment", NUMBER="7", GH_TOKEN="t").returncode == 0
    assert not runner.log.exists()
