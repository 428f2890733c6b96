"""The numbers of tasks and groups in the runs before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pytest_evals.store.history import EarlierRun, earlier_runs

__all__ = ["history_of"]

_MOST = 40
"""Runs that are looked at, the newest first."""

Points = dict[str, dict[str, list[dict[str, Any]]]]


def history_of(run: EarlierRun) -> Points:
    """Task or group → key of a number → what it was, the oldest first, this run last.

    Each point has ``date`` (Unix time), ``value``, ``stderr`` or ``None``, ``model``,
    and ``same``: whether the same was asked. Only numbers that were there before.
    """
    now = run.results
    date = now.get("date")
    if not isinstance(date, int | float):
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
    """Of one run, as far as this one has the same numbers."""
    mine = _table(results, "results")
    for name, numbers in _table(now, "results").items():
        found = mine.get(name)
        if not isinstance(found, dict) or not isinstance(numbers, dict):
            continue
        for key in numbers:
            metric, comma, filter_ = key.partition(",")
            value = found.get(key)
            if comma and not metric.endswith("_stderr") and _is_number(value):
                stderr = found.get(f"{metric}_stderr,{filter_}")
                yield (
                    name,
                    key,
                    {
                        "date": results["date"],
                        "value": value,
                        "stderr": stderr if _is_number(stderr) else None,
                        "model": str(results.get("model_name", "")),
                        "same": _asked(results, name) == _asked(now, name),
                    },
                )


def _asked(results: Mapping[str, Any], name: str) -> tuple[Any, Any]:
    """What tells whether two runs were asked the same."""
    hashes, counts = _table(results, "task_hashes"), _table(results, "counts")
    return hashes.get(name), (counts.get(name) or {}).get("selected")


def _table(results: Mapping[str, Any], section: str) -> Mapping[str, Any]:
    found = results.get(section)
    return found if isinstance(found, dict) else {}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
