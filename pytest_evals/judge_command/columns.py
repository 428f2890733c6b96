"""Large JSON Lines files of plain scores, read as one list a metric instead of a record
a document: a million scores take a second.

Files with other rows (filters, repeats, errors, missing scores) and gates that need
more of a document than its score take the general path.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

import orjson

from pytest_evals.core.gate import Gate
from pytest_evals.core.record import Record
from pytest_evals.core.result import TaskResult
from pytest_evals.gates.read.entry import COMPARED
from pytest_evals.gates.run_metrics import RUN_METRICS
from pytest_evals.judge_command.results import (
    Range,
    metrics_of,
    record_of,
    stored_task,
)
from pytest_evals.result_files.documents import NO_FILTER
from pytest_evals.result_files.foreign_run import ForeignRun
from pytest_evals.result_files.row_files import IDS, REPEATS, SCORES, rows_of
from pytest_evals.result_files.tables import PlacedRow
from pytest_evals.scorers.metrics import MetricSpec, is_accuracy
from pytest_evals.scorers.summary import measured

LARGE = 8 * 2**20
"""Bytes from which a file is read by column."""
_EXAMPLES = 3
"""Wrong documents that are kept for the report."""
_OTHER = frozenset({"filter", "task", "error", "status", *REPEATS, *SCORES})
"""Keys of rows that are more than an id and scores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnRun(ForeignRun):
    """A run with one task.

    Args:
        ids: Ids of its documents.
        columns: Metric → the value of each document.
        wrong: Positions of some documents with a 0 as the first metric → their rows.
    """

    ids: Sequence[Any]
    columns: Mapping[str, Sequence[float]]
    wrong: Mapping[int, PlacedRow]

    @property
    def keys(self) -> dict[tuple[str, str], None]:
        """Its metrics, with their filter."""
        return {(name, NO_FILTER): None for name in self.columns}

    def result(self, name: str, gates: Sequence[Gate], span: Range) -> TaskResult:
        """The result of the task, with records of some wrong documents.

        Raises:
            OptionError: A value of a gate's metric is outside of its range.
        """
        values = {key: self.columns[key[0]] for key in self.keys}
        metrics = metrics_of(self, name, values, gates, span)
        first = next((m for m in self.columns if is_accuracy(MetricSpec(name=m))), None)
        column = [] if first is None else self.columns[first]
        return TaskResult(
            task=stored_task(self, name, self.ids, metrics),
            records=tuple(self._examples(name)) if first is not None else (),
            columns=values,
            metrics=tuple(
                one for m in metrics for one in measured(m, values[m.name, m.filter])
            ),
            n_selected=len(self.ids),
            n_total=len(self.ids),
            n_correct=column.count(1),
            n_wrong=column.count(0),
        )

    def _examples(self, name: str) -> list[Record]:
        found = []
        for at, row in self.wrong.items():
            key = next(key for key in IDS if key in row.fields)
            found.append(record_of(name, at, rows_of([row], key, self.columns)))
        return found


def read_columns(path: Path, gates: Sequence[Gate]) -> ColumnRun | None:
    """The run in a large file of plain scores; ``None`` for other files and gates."""
    names = [*dict.fromkeys(gate.metric for gate in gates)]
    is_large = path.suffix in (".jsonl", ".ndjson") and path.is_file()
    if not (names and all(map(_needs_scores, gates)) and is_large):
        return None
    if path.stat().st_size < LARGE:
        return None
    with path.open("rb") as file:
        return _read(path, file, names)


def _needs_scores(gate: Gate) -> bool:
    """Whether a gate needs the scores of documents, and nothing else of them."""
    more = gate.baseline or gate.control or gate.cluster or gate.reducer or gate.when
    special = gate.is_about_documents or gate.metric in {*COMPARED, *RUN_METRICS}
    return not more and not special


def _read(path: Path, lines: Any, names: Sequence[str]) -> ColumnRun | None:
    ids: list[Any] = []
    columns: dict[str, list[float]] = {name: [] for name in names}
    wrong: dict[int, PlacedRow] = {}
    pairs = [(name, values.append) for name, values in columns.items()]
    keys: Collection[str] = ()
    id_key = ""
    for line in lines:
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError:
            return None
        if row.keys() != keys:
            if keys or not isinstance(row, dict) or row.keys() & _OTHER:
                return None
            keys = row.keys()
            id_key = next((key for key in IDS if key in keys), "")
            if not id_key or not keys >= {*names}:
                return None
        ids.append(row[id_key])
        for name, append in pairs:
            append(row[name])
        if not row[names[0]] and len(wrong) < _EXAMPLES:
            wrong[len(ids) - 1] = PlacedRow(f"{path}:{len(ids)}", row)
    if not ids or not all(map(_is_plain, columns.values())):
        return None
    if not {*map(type, ids)} <= {int, str} or len({*map(str, ids)}) < len(ids):
        return None
    task = path.name.partition(".")[0]
    n = len(ids)
    return ColumnRun(
        path=path,
        results={"counts": {task: {"total": n, "selected": n}}, "program": "rows"},
        documents={task: ()},
        program="rows",
        ids=ids,
        columns=columns,
        wrong=wrong,
    )


def _is_plain(values: Sequence[Any]) -> bool:
    kinds = {*map(type, values)}
    return kinds <= {bool, int, float} and (
        float not in kinds or all(map(isfinite, values))
    )
