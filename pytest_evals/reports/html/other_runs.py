"""Other runs next to the run of the page: the baseline, and stored runs of the same
requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pytest_evals.reports.html.sections import is_number, mapping, section
from pytest_evals.store.history import EarlierRun

_MOST = 4
"""Number of stored runs that are shown without being named."""
_MOST_ROWS = 50_000
"""Number of documents that are read from them."""


class OtherRuns(NamedTuple):
    """The runs next to the run of the page.

    Args:
        baseline: The baseline, if available.
        comparison: The changes since then, as in ``comparison.json``; ``None`` for
            those in the run's folder.
        runs: Further runs; ``None`` for the newest ones with the same requests.
    """

    baseline: EarlierRun | None = None
    comparison: Mapping[str, Any] | None = None
    runs: Sequence[EarlierRun] | None = None


NO_OTHERS = OtherRuns()


def related_runs(
    run: EarlierRun, earlier: Sequence[EarlierRun], before: EarlierRun | None
) -> list[EarlierRun]:
    """Return the newest earlier runs with the same requests of a task, oldest first.

    The baseline's own run is left out. Large runs get fewer, since all their documents
    are read.

    Args:
        run: The run of the page.
        earlier: The stored runs before it, newest first.
        before: The baseline.
    """
    hashes = section(run.results, "task_hashes")
    counts = [mapping(one) for one in section(run.results, "counts").values()]
    n = sum(one["selected"] for one in counts if is_number(one.get("selected")))
    most = min(_MOST, _MOST_ROWS // max(1, int(n)))
    dates = {before.results.get("date")} if before else set()
    same = [
        one
        for one in earlier
        if one.results["date"] not in dates
        and any(
            name in hashes and hashes[name] == found
            for name, found in section(one.results, "task_hashes").items()
        )
    ]
    return [*reversed(same[:most])]


def others_data(run: EarlierRun, others: OtherRuns) -> dict[str, Any]:
    """Return the data of other runs: ``comparison`` and ``runs``, the first of which is
    the baseline, ``None`` without a comparison."""
    baseline, found, runs = others
    first = None
    if found:
        first = _about(baseline, str(found.get("name", "")))
    return {
        "comparison": _comparison(found, run, baseline) if found else None,
        "runs": [first, *(_about(one) for one in runs or ())],
    }


def _about(run: EarlierRun | None, name: str = "") -> dict[str, Any]:
    """Return the name, model, date and metrics of another run."""
    results = run.results if run is not None else {}
    return {
        "name": name,
        "model": str(results.get("model_name", "")),
        "date": results.get("date"),
        "values": {
            task: {
                key: value
                for key, value in mapping(numbers).items()
                if "," in key and "_stderr," not in key and is_number(value)
            }
            for task, numbers in section(results, "results").items()
        },
    }


def _comparison(
    found: Mapping[str, Any], run: EarlierRun, before: EarlierRun | None
) -> dict[str, Any]:
    """Return the comparison for the page: without the flipped documents, which are in
    its index, and with metrics of groups whose tasks were all compared."""
    metrics = [one for one in found.get("metrics") or () if isinstance(one, dict)]
    tasks = {one.get("task") for one in metrics}
    if before is not None:
        for group, members in section(run.results, "group_subtasks").items():
            leaves = {*_leaves(group, members, run.results)}
            if leaves and leaves <= tasks and group not in tasks:
                metrics += _group_changes(group, run.results, before.results)
    rest = {k: v for k, v in found.items() if k not in ("worse", "better")}
    return {**rest, "metrics": metrics}


def _leaves(name: str, members: Any, results: Mapping[str, Any]) -> set[str]:
    groups = section(results, "group_subtasks")
    found: set[str] = set()
    waiting, seen = [*map(str, members if isinstance(members, list) else [])], {name}
    while waiting:
        one = waiting.pop()
        if isinstance(groups.get(one), list) and one not in seen:
            waiting += map(str, groups[one])
        elif one not in seen:
            found.add(one)
        seen.add(one)
    return found


def _group_changes(
    group: str, now: Mapping[str, Any], before: Mapping[str, Any]
) -> list[dict[str, Any]]:
    old, new = (mapping(section(one, "results").get(group)) for one in (before, now))
    directions = mapping(section(now, "higher_is_better").get(group))
    return [
        {
            "task": group,
            "key": key,
            "before": old[key],
            "now": value,
            "higher_is_better": directions.get(key.partition(",")[0]),
        }
        for key, value in new.items()
        if "," in key and "_stderr," not in key
        if is_number(value) and is_number(old.get(key))
    ]
