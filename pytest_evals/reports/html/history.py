"""Metrics of tasks and groups in earlier runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pytest_evals.reports.html.sections import is_number, mapping, section
from pytest_evals.store.history import EarlierRun, earlier_runs

_MOST = 40
"""Maximum number of runs, the newest first."""

Points = dict[str, dict[str, list[dict[str, Any]]]]


def history_of(run: EarlierRun) -> Points:
    """Return, for each task or group and metric, its values in earlier runs and this
    one, oldest first.

    Each point has ``date`` (Unix time), ``value``, ``stderr`` or ``None``, ``model``,
    and ``same``: whether the requests were the same. Only metrics with earlier values
    are included.
    """
    now = run.results
    date = now.get("date")
    if not is_number(date):
        return {}
    before = [
        one.results
        for one in earlier_runs(run.path.resolve().parent.parent, _MOST)
        if one.results["date"] < date
    ]
    points: Points = {}
    for results in [*reversed(before), now]:
        for name, key, point in _points(results, now):
            points.setdefault(name, {}).setdefault(key, []).append(point)
    return {
        name: {key: found for key, found in of_task.items() if len(found) > 1}
        for name, of_task in points.items()
    }


def _points(
    results: Mapping[str, Any], now: Mapping[str, Any]
) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Return the points of one run, for the metrics of this run."""
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
