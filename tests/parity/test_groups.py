"""The same groups as lm-eval 0.4.13: members, numbers, standard errors, versions.

Every file of ``groups/`` was made by ``record_groups.py``, which ran lm-eval itself
over a group of ``tasks/groups`` or of the example suites, and the bundled model.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pytest_evals import evaluate
from pytest_evals.core.task import TaskOptions
from pytest_evals.dialects.task_index.lookup import TaskLookup
from pytest_evals.models.registry import open_model, parse_spec
from pytest_evals.reports.files.jsonfile import results_json

HERE = Path(__file__).resolve().parent
RECORDINGS = sorted((HERE / "groups").glob("*.json"))
OF_LOGPROBS = ("brier_score", "gap", "perplexity")
"""Metrics whose precision is that of the log-probabilities."""


@dataclass(frozen=True)
class Run:
    """The results of lm-eval, and of this package."""

    theirs: dict[str, Any]
    ours: dict[str, Any]


@pytest.fixture(scope="module")
def model(tiny_model_path):
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    spec = f"hf:{tiny_model_path},dtype=float32,device=cpu"
    return open_model(parse_spec(spec))


@pytest.fixture(scope="module", params=RECORDINGS, ids=lambda path: path.stem)
def run(request, model) -> Run:
    recorded = json.loads(request.param.read_text(encoding="utf-8"))
    assert recorded["versions"]["lm_eval"] == "0.4.13"
    tree = (HERE / recorded["tree"]).resolve()
    options = TaskOptions(base=str(tree), library=TaskLookup(tree))
    result = evaluate([(HERE / recorded["file"]).resolve()], model, options)
    return Run(recorded["found"], results_json(result))


@pytest.mark.slow
def test_the_same_tasks_and_groups_are_run(run):
    assert sorted(run.ours["results"]) == sorted(run.theirs["results"])
    assert run.ours["group_subtasks"] == run.theirs["group_subtasks"]


@pytest.mark.slow
def test_versions_num_fewshot_and_directions_are_lm_evals(run):
    for key in ("versions", "n-shot", "higher_is_better"):
        assert run.ours[key] == run.theirs[key], key


@pytest.mark.parametrize("key", ["results", "groups"])
def test_numbers_and_standard_errors_are_lm_evals(run, key):
    assert sorted(run.ours.get(key, {})) == sorted(run.theirs.get(key, {}))
    for name, theirs in run.theirs.get(key, {}).items():
        ours = run.ours[key][name]
        assert sorted(ours) == sorted(theirs), name
        for field, value in theirs.items():
            metric = field.partition(",")[0].removesuffix("_stderr")
            near = 1e-3 if metric in OF_LOGPROBS else 1e-12
            exact = not isinstance(value, float)
            expected = value if exact else pytest.approx(value, rel=near)
            assert ours[field] == expected, (name, field)
