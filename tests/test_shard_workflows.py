"""The workflows of the page about parts: their form, and their shell lines, which run
as printed but for the installation."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from pytest_evals.plugin.settings.option_table import TABLE
from tests import screen_suites, screens

PAGE = Path(__file__).parent.parent / "docs" / "shards.md"


def workflow(name):
    text = PAGE.read_text("utf-8")
    after = text[text.index(f"<!-- workflow: {name} -->") :]
    code = re.search(r"```yaml\n(.*?)^```", after, re.M | re.S)[1]
    return yaml.safe_load(code.replace("\non:", "\n'on':"))


def commands(steps):
    lines = [step["run"] if isinstance(step, dict) else step for step in steps]
    return [line for line in lines if not line.startswith("pip install")]


def test_workflows_are_sound_and_name_options_that_exist():
    given = set(re.findall(r"--evals-[a-z-]+", PAGE.read_text("utf-8")))
    assert given <= {option.flag for option in TABLE}
    found = workflow("github")
    assert found["permissions"] == {"contents": "read"}
    assert found["jobs"]["judge"]["needs"] == "part"
    assert found["jobs"]["part"]["strategy"]["matrix"]["part"] == [*range(1, 9)]
    for job in found["jobs"].values():
        for step in job["steps"]:
            assert ("uses" in step) != ("run" in step)
            assert "${{" not in step.get("run", "")
    jobs = workflow("gitlab")
    assert jobs["judge"]["needs"] == ["part"]
    assert jobs["part"]["parallel"] == 8


def run(line, **more):
    environment = {**os.environ, "PATH": screens.path(), **more}
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", line],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["github", "gitlab"])
def test_shell_lines_of_the_workflows_run_as_printed(name, pytester):
    pytester.makeini("[pytest]\n")
    screen_suites.write("evals", "quiz", 20, [3, 4], ["exact_match >= 0.8"])
    found = workflow(name)
    jobs = found.get("jobs", found)
    parts, judge = (
        commands([s for s in job if isinstance(s, str) or "run" in s])
        for job in (
            jobs[one].get("steps") or jobs[one]["script"] for one in ("part", "judge")
        )
    )
    for part in range(1, 9):
        numbers = {"PART": str(part), "CI_NODE_INDEX": str(part)}
        for line in parts:
            done = run(
                line,
                MODEL="scripted:evals/answers.jsonl",
                CI_NODE_TOTAL="8",
                **numbers,
            )
            assert done.returncode == 0, done.stdout
        if name == "github":  # upload and download of artifacts
            Path("parts").mkdir(exist_ok=True)
            Path("part").rename(f"parts/part-{part}")
    for line in judge:
        done = run(line)
        assert done.returncode == 0, done.stdout
    results = json.loads(Path("merged/results.json").read_text())
    assert results["verdict"] == "passed"
    assert results["counts"]["quiz"]["correct"] == 18
    assert Path("evals.xml").is_file()
