"""Runs in the form of other programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from pytest_evals.result_files.hub_export import write_hub
from pytest_evals.result_files.lm_eval_export import write_lm_eval
from pytest_evals.store.history import EarlierRun

FORMS: Mapping[str, Callable[[EarlierRun, Path], Path]] = {
    "lm-eval": write_lm_eval,
    "hub": write_hub,
}


def export(run: EarlierRun, form: str, folder: Path | None = None) -> Path:
    """Write a run and return the file or folder.

    Args:
        form: A key of :data:`FORMS`.
        folder: Where; ``export`` in the folder of the run by default.

    Raises:
        StoreError: It cannot be written.
    """
    return FORMS[form](run, folder or run.path / "export")
