"""Each value of the task files of the fuzzing suites, replaced by a value of another
type."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pytest_evals.core.task import Task, TaskOptions
from pytest_evals.dialects.readers import eval_files, load_file
from pytest_evals.errors import EvalsError
from tests.fuzz.mutations import replaced

SUITES = Path(__file__).parent / "suites"
FILES = [
    path.relative_to(SUITES).as_posix()
    for suite in ("lm_eval", "latticeflow")
    for path in sorted((SUITES / suite).rglob("*.yaml"))
]


@pytest.mark.nightly
@pytest.mark.parametrize("name", FILES)
def test_a_value_of_another_type_is_accepted_or_named(name, tmp_path, monkeypatch):
    suite = tmp_path / "suite"
    shutil.copytree(SUITES / Path(name).parts[0], suite)
    monkeypatch.chdir(suite)
    path = suite.joinpath(*Path(name).parts[1:])
    text = path.read_bytes()
    options = TaskOptions(base=str(suite), root=str(suite), has_model=True)
    for new in ("[[]]", "{a: {b: []}}", "7", "null"):
        for place, changed in replaced(text, new):
            path.write_bytes(changed)
            for file in eval_files(suite):
                try:
                    for one in load_file(file, options):
                        _ = list(one.rows.ids()) if isinstance(one, Task) else []
                except EvalsError as error:
                    assert str(error)
                except Exception as error:
                    error.add_note(f"{name}, {place}: {new}")
                    raise
