"""Results of any program as a stored run of this one, with numbers of metrics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pytest_evals.core.result import RunResult
from pytest_evals.errors import OptionError
from pytest_evals.judge_command.gates import GivenGates
from pytest_evals.judge_command.verdicts import judged
from pytest_evals.reports.files.jsonfile import results_json
from pytest_evals.result_files.find import read_results
from pytest_evals.store.history import RESULTS, EarlierRun, MemoryRun, read_run


def stored_run(path: Path) -> EarlierRun:
    """The run in a file or folder, with its metrics.

    Raises:
        OptionError: Nobody knows the format, or it has no scores.
        StoreError: A run of this program cannot be read.
    """
    folder = path.parent if path.name == RESULTS else path
    stored = read_run(folder) if (folder / RESULTS).is_file() else None
    if stored is not None and stored.tasks:
        return stored
    try:
        run = read_results(path)
    except OptionError:
        if stored is None:
            raise
        return stored  # numbers without documents
    return as_stored(run, judged(run, GivenGates((), ())).result)


def as_stored(
    run: EarlierRun, result: RunResult, exit_code: int | None = None
) -> MemoryRun:
    """A run with the content of ``results.json``."""
    found: dict[str, Any] = results_json(result, exit_code=exit_code)
    kept = {key: run.results[key] for key in _KEPT if key in run.results}
    found |= {**kept, "program": run.results.get("program") or "pytest-model-evals"}
    documents = {task: list(run.all_rows(task)) for task in run.tasks}
    return MemoryRun(path=run.path, results=found, documents=documents)


_KEPT = (
    "config",
    "configs",
    "versions",
    "n-shot",
    "date",
    "model_name",
    "chat_template",
    "system_instruction",
    "lm_eval_version",
    "program_version",
    "task_hashes",
)
"""Facts of a run that its program knows, and its documents do not show."""
