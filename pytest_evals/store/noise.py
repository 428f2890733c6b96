"""How much a task's answers turn between two runs of one model, as it was measured:
``noise.json`` in the folder of a baseline."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_evals.store.files import write_json

__all__ = ["NOISE", "keep_noise", "recorded_rate"]

NOISE = "noise.json"


def keep_noise(folder: Path, noise: Mapping[str, Any]) -> None:
    """Record the noise of tasks beside a baseline; what is known of others stays.

    Args:
        folder: Of the baseline.
        noise: Task → key of a metric → ``flip_rate`` and what else was measured.

    Raises:
        StoreError: It cannot be written.
    """
    known = _read(folder / NOISE)
    write_json(folder / NOISE, {**known, **noise}, "--evals-calibrate")


def recorded_rate(base: Path, name: str, task: str, key: str) -> float | None:
    """The share of answers that turn between two runs; ``None`` if nobody measured it.

    Args:
        base: The results folder.
        name: A baseline that is asked first; the others follow, the latest first.
        task: Name of the task.
        key: Metric and filter; any filter where it is the metric alone.
    """
    for folder in _folders(base, name):
        numbers = _read(folder / NOISE).get(task)
        for known, found in numbers.items() if isinstance(numbers, dict) else ():
            rate = found.get("flip_rate") if isinstance(found, dict) else None
            same = key in (known, known.partition(",")[0])
            if same and isinstance(rate, int | float) and 0 <= rate <= 1:
                return float(rate)
    return None


def _folders(base: Path, name: str) -> Iterator[Path]:
    folder = base / "baselines"
    if name:
        yield folder / name
    others = [path.parent for path in folder.glob(f"*/{NOISE}")]
    yield from sorted(others, key=lambda one: -(one / NOISE).stat().st_mtime)


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
