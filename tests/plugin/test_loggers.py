"""The loggers of the page on hooks, with fake modules that accept the libraries'
arguments; the libraries themselves need a server, or tens of megabytes.

Sources: docs.wandb.ai, Python library ("init", "Run", "Table"); mlflow.org, Python API
("mlflow").
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parent.parent.parent / "docs" / "hooks.md"
WANDB = """
import json

class Run:
    def __init__(self, project, config):
        self.calls, self.summary = [project, config], {}

    def __enter__(self):
        return self

    def __exit__(self, *error):
        with open("calls.json", "w") as file:
            json.dump([*self.calls, self.summary], file)

    def log(self, data):
        self.calls.append({name: one.rows for name, one in data.items()})

class Table:
    def __init__(self, columns=None, data=None, rows=None, dataframe=None):
        self.rows = list(dataframe["gate"])

def init(entity=None, project=None, dir=None, id=None, name=None, config=None):
    return Run(project, config)
"""
MLFLOW = """
import json
import re
from contextlib import contextmanager

calls = []

@contextmanager
def start_run(run_id=None, experiment_id=None, run_name=None):
    yield
    with open("calls.json", "w") as file:
        json.dump(calls, file)

def log_param(key, value):
    calls.append([key, value])

def log_metric(key, value, step=None):
    assert re.fullmatch(r"[\\w/.: -]+", key)
    calls.append([key, value])

def log_table(data, artifact_file):
    calls.append([artifact_file, list(data["gate"])])
"""
MODEL, GATE = "scripted:answers.jsonl", "exact_match >= 0.4"
BY_WANDB = [
    "evals",
    {"model": MODEL},
    {"gates": [GATE]},
    {"quiz/exact_match,none": 0.8},
]
BY_MLFLOW = [["model", MODEL], ["quiz/exact_match.none", 0.8], ["gates.json", [GATE]]]


@pytest.mark.parametrize(
    ("title", "name", "module", "calls"),
    [
        ("Weights & Biases", "wandb", WANDB, BY_WANDB),
        ("MLflow", "mlflow", MLFLOW, BY_MLFLOW),
    ],
    ids=["wandb", "mlflow"],
)
def test_loggers_make_the_documented_calls(suite, title, name, module, calls):
    text = PAGE.read_text(encoding="utf-8").partition(f"## {title}\n")[2]
    suite.pytester.makeconftest(re.search(r"```python\n(.*?)```", text, re.DOTALL)[1])
    (suite.pytester.path / f"{name}.py").write_text(module)
    suite.pytester.syspathinsert()
    suite.task("quiz", gates=[GATE])
    suite.knows(wrong=[2, 5])
    assert suite.run("evals").ret == 0
    assert json.loads((suite.pytester.path / "calls.json").read_text()) == calls
