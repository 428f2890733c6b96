"""Other runs next to the run of the page: the baseline, and stored runs of the same
requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pytest_evals.reports.html.sections import is_number, mapping, section
from pytest_evals.store.history import EarlierRun, with_names_of

_MOST = 4
"""Number of stored runs that are shown without being named."""
_MOST_ROWS = 50_000
"""Number of documents that are read from them."""


class OtherRuns(NamedTuple):
    """The runs next to the run of the page."""

    baseline: EarlierRun | None = None  # the baseline, if available
    comparison: Mapping[str, Any] | None = None
    """The changes since then, as in ``comparison.json``; ``None`` for those in the
    run's folder."""
    runs: Sequence[EarlierRun] | None = None
    """Further runs; ``None`` for the newest ones with the same requests."""

    def with_names_of(self, ids: Mapping[str, str]) -> OtherRuns:
        """Return the runs with the names of tasks that have these node ids."""
        before = self.baseline and with_names_of(self.baseline, ids)
        runs = self.runs and [with_names_of(one, ids) for one in self.runs]
        return self._replace(baseline=before, runs=runs)


NO_OTHERS = OtherRuns()


def related_runs(
    run: EarlierRun, earlier: Sequence[EarlierRun], before: EarlierRun | None
) -> list[EarlierRun]:
    """Return the newest earlier runs with the same requests of a task, oldest first.

    The baseline's own run is left out. Large runs get fewer, since all their documents
    are read."""
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


def others_data(others: OtherRuns) -> dict[str, Any]:
    """Return the data of other runs: ``comparison`` without flipped documents, which
    are in the page's index; and ``runs``, the first of which is the baseline, ``None``
    without a comparison."""
    baseline, found, runs = others
    rest = {k: v for k, v in (found or {}).items() if k not in ("worse", "better")}
    first = None
    if found:
        first = _about(baseline, str(found.get("name", "")))
    return {
        "comparison": rest if found else None,
        "runs": [first, *(_about(one) for one in runs or ())],
    }


def _about(run: EarlierRun | None, name: str = "") -> dict[str, Any]:
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
