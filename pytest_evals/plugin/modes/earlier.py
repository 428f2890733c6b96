"""What documents were worth in a gate's baseline, known before they are run: by their
places in the dataset. Whether they are still the same is seen when they have been run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pytest_evals.core.gate import Gate
from pytest_evals.core.metric import Metric
from pytest_evals.errors import StoreError
from pytest_evals.plugin.results.baseline import References

if TYPE_CHECKING:
    from pytest_evals.plugin.session import EvalSession
    from pytest_evals.plugin.suite.runs import TaskRun

__all__ = ["Earlier"]


class Earlier:
    """Looks documents up in baselines of gates."""

    def __init__(self, session: EvalSession) -> None:
        """Nothing is read yet."""
        self._session = session
        self._references = References(session)

    def values(
        self, run: TaskRun, gate: Gate, metric: Metric | None
    ) -> Mapping[int, float] | str:
        """Position of each document of a task to what it was worth; empty for a gate
        without baseline. Or why nothing can be said."""
        if not gate.baseline or metric is None:
            return {}
        baseline = self._references.run(gate.baseline)
        if isinstance(baseline, str):
            return baseline
        found: dict[int, float] = {}
        try:
            for row in baseline.all_rows(run.task.name):
                value = row.get(metric.key, row.get(metric.name))
                if row.get("filter") == metric.filter and isinstance(
                    value, int | float
                ):
                    found[int(row["doc_id"])] = float(value)
        except StoreError as error:
            return str(error)
        if set(found) != set(run.indices):
            return f"the baseline {gate.baseline} has other documents"
        return found

    def fault(self, gate: Gate, metric: Metric, before: Mapping[int, float]) -> str:
        """Why the documents that were run cannot be held against the baseline; empty if
        they can."""
        found = self._session.judging.find(gate.baseline, gate.task)
        known = found.values.get(metric.key, {})
        moved = any(before.get(index) != value for index, value in known.items())
        return found.fault or ("its documents have other places" if moved else "")
