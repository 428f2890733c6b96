"""Metrics of tasks and groups in earlier runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pytest_evals.errors import StoreError
from pytest_evals.reports.html.sections import is_number, mapping, section
from pytest_evals.store.history import RESULTS, EarlierRun, earlier_runs, load_run

_MOST = 40
"""Maximum number of runs, the newest first."""

Points = dict[str, dict[str, list[dict[str, Any]]]]


def runs_before(run: EarlierRun) -> list[EarlierRun]:
    """Return the stored runs before this one, newest first."""
    date = run.results.get("date")
    if not is_number(date):
        return []
    found = earlier_runs(_base(run), _MOST)
    return [one for one in found if one.results["date"] < date]


def history_of(run: EarlierRun, earlier: Sequence[EarlierRun]) -> Points:
    """Return, for each task or group and metric, its values in earlier runs and this
    one, oldest first.

    Each point has ``date`` (Unix time), ``value``, ``stderr`` or ``None``, ``model``,
    ``same``: whether the requests were the same, and ``baseline``: the name that its
    run was saved under. Only metrics with earlier values are included."""
    now = run.results
    if not is_number(now.get("date")):
        return {}
    names = _baselines(_base(run))
    points: Points = {}
    for results in [*(one.results for one in reversed(earlier)), now]:
        name_of_run = names.get(results.get("date"), "")
        for name, key, point in _points(results, now):
            point["baseline"] = name_of_run
            points.setdefault(name, {}).setdefault(key, []).append(point)
    return {
        name: {key: found for key, found in of_task.items() if len(found) > 1}
        for name, of_task in points.items()
    }


def _base(run: EarlierRun) -> Path:
    return run.path.resolve().parent.parent


def _baselines(base: Path) -> dict[Any, str]:
    found = {}
    for path in sorted(base.glob(f"baselines/*/{RESULTS}")):
        with suppress(StoreError):
            found[load_run(path.parent).results.get("date")] = path.parent.name
    return found


def _points(
    results: Mapping[str, Any], now: Mapping[str, Any]
) -> Iterator[tuple[str, str, dict[str, Any]]]:
    mine = section(results, "results")
    for name, numbers in section(now, "results").items():
        found = mine.get(name)
        if not isinstance(found, dict) or not isinstance(numbers, dict):
            continue
        for key in numbers:
            metric, comma, filter_ = key.partition(",")
            value = found.get(key)
            if comma and not metric.endswith("_stderr") and is_number(value):
                stderr = found.get(f"{metric}_stderr,{filter_}")
                yield (
                    name,
                    key,
                    {
                        "date": results["date"],
                        "value": value,
                        "stderr": stderr if is_number(stderr) else None,
                        "model": str(results.get("model_name", "")),
                        "same": _asked(results, name) == _asked(now, name),
                    },
                )


def _asked(results: Mapping[str, Any], name: str) -> tuple[Any, Any]:
    """Return the key that is equal for runs with the same requests."""
    hashes, counts = section(results, "task_hashes"), section(results, "counts")
    return hashes.get(name), mapping(counts.get(name)).get("selected")
