"""Baselines by name or path: runs of this program or of another one."""

from __future__ import annotations

import os
from pathlib import Path

from pytest_evals.errors import OptionError, StoreError
from pytest_evals.store.baselines import find_baseline
from pytest_evals.store.history import RESULTS, EarlierRun, load_run


def find_run(base: Path, name: str, here: Path) -> EarlierRun:
    """The baseline with a name, or the run in a file or folder.

    Raises:
        StoreError: It does not exist, or cannot be read.
    """
    place = here / os.path.expanduser(name)
    # Unlike Path.exists, os.path.exists is False for names that are too long.
    is_named = place.name == name and os.path.exists(base / "baselines" / name)
    if is_named or not os.path.exists(place) or _is_ours(place):
        return find_baseline(base, name, here)
    # Late: most runs need no reader of another program.
    from pytest_evals.result_files.find import read_results

    try:
        return read_results(place)
    except OptionError as error:
        raise StoreError(str(error)) from None


def _is_ours(place: Path) -> bool:
    """Whether a run of this program is there, readable or not."""
    folder = place.parent if place.name == RESULTS else place
    try:
        return "schema_version" in load_run(folder).results
    except StoreError:
        return (folder / RESULTS).is_file()
