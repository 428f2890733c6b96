"""Paths in task files that no file system accepts."""

from __future__ import annotations

import json

import pytest
import yaml

from pytest_evals.core.task import TaskOptions
from pytest_evals.dialects.readers import load_file
from pytest_evals.errors import EvalsError

PATHS = [
    "n" * 300,
    "n/" * 3000 + "n",
    "n\0.yaml",
    "~nobody-of-this-name/n",
    "./" + "n" * 300,
]
TASK = {
    "task": "toy",
    "dataset_path": "json",
    "dataset_kwargs": {"data_files": {"test": "toy.jsonl"}},
    "test_split": "test",
    "output_type": "generate_until",
    "doc_to_text": "{{q}}",
    "doc_to_target": "{{a}}",
}
CHANGES = {
    "include": lambda path: {"include": path},
    "data_files": lambda path: {"dataset_kwargs": {"data_files": {"test": path}}},
    "dataset_path": lambda path: {"dataset_path": path},
    "metric": lambda path: {"metric_list": [{"metric": path}]},
}


@pytest.fixture
def load(tmp_path, monkeypatch):
    """A function that reads ``toy.yaml`` with this text, and its rows."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (tmp_path / "toy.jsonl").write_text(json.dumps({"q": "x", "a": "y"}) + "\n")

    def read(text):
        path = tmp_path / "toy.yaml"
        path.write_text(text)
        for task in load_file(path, TaskOptions(base=str(tmp_path), has_model=True)):
            list(task.rows.ids())

    return read


@pytest.mark.parametrize("path", PATHS, ids=lambda path: repr(path)[:12])
@pytest.mark.parametrize("key", CHANGES)
def test_a_path_that_no_file_system_takes_is_an_error_with_its_line(load, key, path):
    with pytest.raises(EvalsError) as caught:
        load(yaml.safe_dump(TASK | CHANGES[key](path)))
    assert str(caught.value).startswith("toy.yaml:")


@pytest.mark.guests
@pytest.mark.parametrize("path", PATHS[:2], ids=len)
@pytest.mark.parametrize("tag", ["{$ref: %s}", "!include %s"])
def test_a_latticeflow_reference_to_such_a_path_is_one_too(load, tag, path):
    with pytest.raises(EvalsError) as caught:
        load(f"key: toy\ndefinition:\n  dataset: {tag % path}\n")
    assert "toy.yaml:3: " in str(caught.value)
