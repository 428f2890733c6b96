"""The bundled suites have no problems; problems are tested through pytest."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_evals.core.task import TaskOptions
from pytest_evals.dialects.lm_eval.task import load_tasks
from pytest_evals.plugin.modes.validation import problems_of

ROOT = Path(__file__).resolve().parents[2]
SUITES = (ROOT / "example_suites" / "lm_eval", ROOT / "tests" / "parity" / "tasks")
FILES = [
    path
    for folder in SUITES
    for path in sorted(folder.glob("*.yaml"))
    if not path.name.startswith("_") and path.stem != "gates"
]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_valid_suites_have_no_problems(path):
    """Every file here is run by the parity tests, so any reported problem is
    incorrect."""
    # One of them runs a script next to it by its name, as lm-eval does.
    for task in load_tasks(path, TaskOptions(allow_unsafe_code=True)):
        documents = dict(zip(task.rows.indices(), task.rows.ids(), strict=True))
        assert documents
        assert problems_of(task, documents, scores=True) == []
