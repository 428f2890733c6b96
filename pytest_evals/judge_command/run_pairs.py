"""Two runs whose documents are paired, by column or by record: references of gates, and
the comparison."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import islice

from pytest_evals.core.comparison import Comparison, DocumentChange
from pytest_evals.core.metric import Span
from pytest_evals.core.reference import MIN_OVERLAP, Overlap, Reference
from pytest_evals.judge_command.columns import ColumnRun
from pytest_evals.result_files.documents import NO_FILTER
from pytest_evals.run.comparison import paired
from pytest_evals.run.metric_changes import MEAN
from pytest_evals.scorers.metrics import METRICS
from pytest_evals.store.document_pairs import counted, document_change, refer
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

    def comparison(self, name: str, span: Span) -> Comparison:
        """The changes. ``name``: that of the baseline in reports. ``span``: the range
        of scores of unknown metrics, as for gates."""
        if self._columns is None:
            numbers = self._run.results.get("results", {})
            keys = [(task, key) for task in numbers for key in numbers[task]]
            unknown = [one for one in keys if one[1].partition(",")[0] not in METRICS]
            methods = dict.fromkeys(unknown, replace(MEAN, limits=span))
            return paired(name, *self._sides, methods).comparison
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


Pair = tuple[int, int]
"""Position of a document before and now."""
_NO_TEXTS = {"prompt": "", "target": "", "before": "", "now": ""}
_SHOWN = 10
"""Documents of each kind that reports show with their texts."""


class ColumnPairs:
    """Two runs with one task, whose shared documents have equal prompts and targets."""

    def __init__(self, run: ColumnRun, before: ColumnRun) -> None:
        self._run, self._before = run, before
        known = {id_: at for at, id_ in enumerate(before.ids)}
        found = [known.pop(id_, None) for id_ in run.ids]
        self._pairs = [(old, at) for at, old in enumerate(found) if old is not None]
        added = [run.ids[at] for at, old in enumerate(found) if old is None]
        kinds = ((added, "added"), ([*known], "removed"))
        self._changes = tuple(
            f"{counted(ids)} {message}" for ids, message in kinds if ids
        )

    @property
    def _overlap(self) -> Overlap | None:
        if not self._changes:
            return None
        shared = frozenset(at for _, at in self._pairs)
        return Overlap(len(self._before.ids), shared, self._changes)

    def reference(self, name: str, fix: str) -> Reference:
        """The baseline's values. ``fix``: how to get another baseline."""
        return Reference(
            baseline=name,
            values={
                f"{metric},{NO_FILTER}": {at: values[old] for old, at in self._pairs}
                for metric, values in self._before.columns.items()
            },
            n=len(self._before.ids),
            overlap=self._overlap,
            fix=fix,
        )

    def _flipped(self, *values: float) -> list[Pair]:
        """The documents with these values before and now, 1 for correct ones."""
        before, now = self._before.correct, self._run.correct
        if not (before and now):
            return []
        return [one for one in self._pairs if (before[one[0]], now[one[1]]) == values]

    def shown(self) -> set[int]:
        """Positions of documents that reports show: some with a lower and some with a
        higher value of each metric."""
        found: set[int] = set()
        for name, now in self._run.columns.items():
            before = self._before.columns[name]
            for sign in (-1, 1):
                changed = (
                    at for old, at in self._pairs if sign * (now[at] - before[old]) > 0
                )
                found |= {*islice(changed, _SHOWN)}
        return found

    def comparison(self, name: str, task: str) -> Comparison:
        """The documents whose correctness has changed."""
        overlap = self._overlap
        fault = overlap.fault(MIN_OVERLAP) if overlap is not None else ""
        if fault:
            return Comparison(name=name, refused=(f"{task}: {fault}",))
        return Comparison(
            name=name,
            worse=tuple(self._changes_of(task, self._flipped(1, 0))),
            better=tuple(self._changes_of(task, self._flipped(0, 1))),
            n_paired=len(self._pairs),
            warnings=() if overlap is None else (f"{task}: {overlap.text}",),
        )

    def _changes_of(self, task: str, pairs: Sequence[Pair]) -> Iterator[DocumentChange]:
        """The changes of documents, of the first ones with their texts."""
        first = pairs[:_SHOWN]
        old = self._before.rows_at({before for before, _ in first})
        new = self._run.rows_at({now for _, now in first})
        for before, now in first:
            yield document_change(task, old[before], new[now])
        for _, now in pairs[_SHOWN:]:
            yield DocumentChange(task=task, id=self._run.ids[now], **_NO_TEXTS)
