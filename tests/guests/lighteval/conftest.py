"""Task modules with data files next to them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_evals.core.task import Task, TaskOptions
from pytest_evals.errors import TaskFileError
from pytest_evals.guests.lighteval.tasks import load_tasks
from pytest_evals.run.selection import Selection

HEAD = """
from lighteval.metrics.dynamic_metrics import LogLikelihoodAccMetric
from lighteval.metrics.metrics import Metrics, SampleLevelMetric
from lighteval.metrics.normalizations import LogProbPMINorm
from lighteval.tasks.lighteval_task import LightevalTaskConfig
from lighteval.tasks.requests import Doc, SamplingMethod


def prompt(line, task_name=None):
    if line["n"] == 13:
        return None
    return Doc(
        task_name=task_name,
        query=f"{line['n']}?",
        choices=[" odd", " even"],
        gold_index=int(line["n"] % 2 == 0),
        instruction="Odd or even?",
    )


def task(name="parity", **more):
    given = dict(
        prompt_function=prompt,
        hf_repo="json",
        hf_subset="default",
        hf_data_files={"train": "train.jsonl", "test": "test.jsonl"},
        hf_avail_splits=["train", "test"],
        evaluation_splits=["test"],
        metrics=[Metrics.exact_match],
        generation_size=3,
        stop_sequence=["\\n"],
    )
    return LightevalTaskConfig(name=name, **{**given, **more})

"""

N_LINES = HEAD.count("\n")


@pytest.fixture
def module(tmp_path: Path):
    """Return a function that writes a module with two splits and loads its tasks."""
    rows = {"train": [100, 101, 102, 103], "test": [10, 11, 12, 13]}
    for split, numbers in rows.items():
        lines = "".join(json.dumps({"n": n, "kind": split}) + "\n" for n in numbers)
        (tmp_path / f"{split}.jsonl").write_text(lines)

    def load(table: str, requested: str = "", **options: object) -> list[Task]:
        path = tmp_path / "parity.py"
        number = len([*tmp_path.glob("parity*.py")])
        path = tmp_path / f"parity{number}.py"
        path.write_text(f"{HEAD}{table}\n")
        selection = Selection(requested.split())
        found = load_tasks(
            path,
            TaskOptions(takes=selection.takes, variants=selection.variants, **options),
        )
        return list(found)

    return load


@pytest.fixture
def problems():
    """The error message about a module."""

    def message(load, table: str, **options) -> str:
        with pytest.raises(TaskFileError) as caught:
            for one in load(table, **options):
                one.rows.ids()
        return str(caught.value)

    return message


@pytest.fixture
def n_lines() -> int:
    """Lines of a module above its table."""
    return N_LINES
