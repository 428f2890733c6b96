"""Measured flip rates between two runs of one model: ``noise.json`` in the folder of a
baseline."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_evals.errors import StoreError
from pytest_evals.store.files import read_json, write_json
from pytest_evals.store.schema import SCHEMAS, schema_fault

NOISE = "noise.json"
_VERSION = "schema_version"


def save_flip_rates(folder: Path, noise: Mapping[str, Any]) -> None:
    """Write the flip rates of tasks next to a baseline; those of other tasks are kept.
    ``noise``: for each task and key of a metric, ``flip_rate``, or ``mean_square`` for
    answers that are not correct or wrong, and other measurements.

    Raises:
        StoreError: It cannot be written, or has another schema version.
    """
    known = {**_read(folder / NOISE), _VERSION: SCHEMAS["results"].current}
    write_json(folder / NOISE, {**known, **noise}, "--evals-repeatability")


def stored_flip_rate(base: Path, name: str, task: str, key: str) -> float | None:
    """Return the fraction of answers that flip between two runs, or the mean squared
    change of other numbers; ``None`` if it was not measured.

    Args:
        name: The baseline to read first; then the others, the latest first.
        key: Metric and filter; any filter if it is the metric alone.
    """
    for folder in _folders(base, name):
        try:
            numbers = _read(folder / NOISE).get(task)
        except StoreError:  # reported when it is written again
            continue
        for known, found in numbers.items() if isinstance(numbers, dict) else ():
            if isinstance(found, dict) and key in (known, known.partition(",")[0]):
                rate = _rate(found)
                if rate is not None:
                    return rate
    return None


def _rate(found: Mapping[str, Any]) -> float | None:
    for name, most in (("flip_rate", 1.0), ("mean_square", sys.float_info.max)):
        value = found.get(name)
        if isinstance(value, int | float) and 0 <= value <= most:
            return float(value)
    return None


def _folders(base: Path, name: str) -> Iterator[Path]:
    folder = base / "baselines"
    if name:
        yield folder / name
    try:
        others = [path.parent for path in folder.glob(f"*/{NOISE}")]
        others.sort(key=lambda one: -(one / NOISE).stat().st_mtime)
    except OSError:  # reported where results are written
        return
    yield from others


def _read(path: Path) -> dict[str, Any]:
    found = read_json(path)
    fault = schema_fault("results", found.get(_VERSION), path)
    if fault:
        raise StoreError(fault)
    return found
