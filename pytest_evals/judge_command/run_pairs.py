"""Two runs whose documents are paired: references of gates, and the comparison."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property

from pytest_evals.core.comparison import Comparison
from pytest_evals.core.reference import Reference
from pytest_evals.judge_command.column_pairs import ColumnPairs
from pytest_evals.judge_command.columns import ColumnRun
from pytest_evals.run.comparison import compare
from pytest_evals.store.document_pairs import refer
from pytest_evals.store.history import EarlierRun
from pytest_evals.store.run_settings import Row, Side

_FIX = "pass other results with --baseline"


class RunPairs:
    """New results and older ones."""

    def __init__(self, run: EarlierRun, baseline: EarlierRun) -> None:
        self._run, self._baseline = run, baseline
        self._columns = None
        if isinstance(run, ColumnRun) and isinstance(baseline, ColumnRun):
            self._columns = ColumnPairs(run, baseline)
        self._known: dict[tuple[str, str], Reference] = {}

    def reference(self, name: str, task: str) -> Reference:
        """A task in the older results, paired with the new ones. ``name``: that of the
        baseline in the gate."""
        if (name, task) not in self._known:
            found = (
                self._columns.reference(name, _FIX)
                if self._columns is not None
                else refer(name, task, *self._sides, fix=_FIX)
            )
            self._known[name, task] = found
        return self._known[name, task]

    def comparison(self, name: str) -> Comparison:
        """The changes. ``name``: that of the baseline in reports."""
        if self._columns is None:
            return compare(name, *self._sides)
        return self._columns.comparison(name, *self._run.tasks)

    @property
    def shown(self) -> Collection[int]:
        """Positions of documents in reports, of runs that were read by column."""
        return self._columns.shown() if self._columns is not None else ()

    @cached_property
    def _sides(self) -> tuple[Side, Side]:
        return _side(self._baseline), _side(self._run)


def _side(run: EarlierRun) -> Side:
    """One of two runs to pair; its documents are numbered as in its results."""
    rows: dict[str, Sequence[Row]] = {}
    for task in run.tasks:
        found = list(run.all_rows(task))
        numbers = sorted({row["doc_id"] for row in found})
        if numbers != [*range(len(numbers))]:
            positions = {doc_id: at for at, doc_id in enumerate(numbers)}
            found = [{**row, "doc_id": positions[row["doc_id"]]} for row in found]
        rows[task] = found
    return Side(results=run.results, rows=rows)
