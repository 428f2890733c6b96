"""Large JSON Lines files of plain scores, read as one list a metric instead of a record
a document: a million scores take a second, two such runs ten.

Files with other rows (filters, repeats, errors, missing scores) and gates that need
more of a document than its scores take the general path.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from math import isfinite
from pathlib import Path
from typing import Any

import orjson

from pytest_evals.core.gate import Gate
from pytest_evals.core.result import TaskResult
from pytest_evals.gates.read.entry import COMPARED
from pytest_evals.gates.run_metrics import RUN_METRICS
from pytest_evals.judge_command.results import Range, metrics_of, record_of, stored_task
from pytest_evals.result_files.documents import NO_FILTER, ForeignRun
from pytest_evals.result_files.row_files import (
    IDS,
    REPEATS,
    SCORES,
    SHOWN,
    rows_of,
    shown_values,
)
from pytest_evals.result_files.tables import PlacedRow
from pytest_evals.scorers.metrics import MetricSpec, is_accuracy
from pytest_evals.scorers.summary import measured

LARGE = 2 * 2**20
"""Bytes from which a file is read by column."""
_EXAMPLES = 3
"""Wrong documents that are kept for the report."""
_OTHER = frozenset({"filter", "task", "error", "status", *REPEATS, *SCORES})
"""Keys of rows that are more than an id and scores."""
_ASKED = frozenset({*SHOWN["prompt"], *SHOWN["target"]})
"""Keys of rows by which a document of one id may differ from that of another run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnRun(ForeignRun):
    """A run with one task.

    Args:
        ids: Ids of its documents.
        columns: Metric → the value of each document.
        asked: A hash of each document's prompt and target; empty if rows have neither.
    """

    ids: Sequence[str]
    columns: Mapping[str, Sequence[float]]
    asked: Sequence[int]

    @property
    def keys(self) -> dict[tuple[str, str], None]:
        """Its metrics, with their filter."""
        return {(name, NO_FILTER): None for name in self.columns}

    @property
    def correct(self) -> Sequence[float]:
        """The column by which documents are correct (1) or wrong (0); empty without."""
        first = next((m for m in self.columns if is_accuracy(MetricSpec(name=m))), None)
        return () if first is None else self.columns[first]

    def result(
        self, name: str, gates: Sequence[Gate], span: Range, shown: Collection[int] = ()
    ) -> TaskResult:
        """The result of the task, with records of some documents. ``shown``: positions
        of the documents that reports show; without any, those of some wrong documents.

        Raises:
            OptionError: A value of a gate's metric is outside of its range.
        """
        values = {key: self.columns[key[0]] for key in self.keys}
        metrics = metrics_of(self, name, values, gates, span)
        column = self.correct
        wrong = islice((at for at, value in enumerate(column) if not value), _EXAMPLES)
        rows = self.rows_at({*(shown or wrong)})
        return TaskResult(
            task=stored_task(self, name, self.ids, metrics),
            records=tuple(record_of(name, at, [row]) for at, row in rows.items()),
            columns=values,
            metrics=tuple(
                one for m in metrics for one in measured(m, values[m.name, m.filter])
            ),
            n_selected=len(self.ids),
            n_total=len(self.ids),
            n_correct=column.count(1),
            n_wrong=column.count(0),
        )

    def rows_at(self, positions: Collection[int]) -> dict[int, dict[str, Any]]:
        """Position → row of some documents, read from the file once more."""
        found = {}
        for at, line in enumerate(_lines(self.path) if positions else ()):
            if at in positions:
                row = PlacedRow(f"{self.path}:{at + 1}", orjson.loads(line))
                key = next(key for key in IDS if key in row.fields)
                (found[at],) = rows_of([row], key, self.columns)
        return found


def read_columns(
    path: Path, gates: Sequence[Gate], baseline: Path | None = None
) -> tuple[ColumnRun, ColumnRun | None] | None:
    """The run in a large file of plain scores, and its baseline; ``None`` for other
    files and gates, and for documents whose prompt or target has changed."""
    names = [*dict.fromkeys(gate.metric for gate in gates)]
    paths = [path] if baseline is None else [path, baseline]
    if not (names and all(map(_needs_scores, gates)) and all(map(_is_lines, paths))):
        return None
    if path.stat().st_size < LARGE:
        return None
    run = _read(path, names)
    if run is None:
        return None
    if baseline is None:
        return run, None
    before = _read(baseline, names)
    return (run, before) if before and not _is_changed(run, before) else None


def _needs_scores(gate: Gate) -> bool:
    """Whether a gate needs the scores of documents, and nothing else of them."""
    more = gate.control or gate.cluster or gate.reducer or gate.when
    special = gate.is_about_documents or gate.metric in {*COMPARED, *RUN_METRICS}
    return not more and not special


def _is_lines(path: Path) -> bool:
    return path.suffix in (".jsonl", ".ndjson") and path.is_file()


def _is_changed(run: ColumnRun, before: ColumnRun) -> bool:
    """Whether a document of both runs has another prompt or target."""
    if not (run.asked or before.asked):
        return False
    known = dict(zip(before.ids, before.asked, strict=False))
    asked = dict(zip(run.ids, run.asked, strict=False))
    shared = known.keys() & asked.keys()
    return (
        len(known) != len(before.ids)
        or len(asked) != len(run.ids)
        or any(known[one] != asked[one] for one in shared)
    )


def _lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from file


def _read(path: Path, names: Sequence[str]) -> ColumnRun | None:
    ids: list[Any] = []
    asked: list[int] = []
    columns: dict[str, list[float]] = {name: [] for name in names}
    pairs = [(name, values.append) for name, values in columns.items()]
    keys: Collection[str] = ()
    id_key, is_asked = "", False
    for line in _lines(path):
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError:
            return None
        if row.keys() != keys:
            if keys or not _is_simple(row, names):
                return None
            keys = row.keys()
            id_key = next(key for key in IDS if key in keys)
            is_asked = not _ASKED.isdisjoint(keys)
        ids.append(row[id_key])
        for name, append in pairs:
            append(row[name])
        if is_asked:
            shown = shown_values(row, names)
            asked.append(hash((repr(shown["prompt"]), str(shown["target"]))))
    if not {*map(type, ids)} <= {int, str} or not all(map(_is_plain, columns.values())):
        return None
    ids = [*map(str, ids)]
    if not ids or len({*ids}) < len(ids):
        return None
    task, n = path.name.partition(".")[0], len(ids)
    return ColumnRun(
        path=path,
        results={"counts": {task: {"total": n, "selected": n}}, "program": "rows"},
        documents={task: ()},
        program="rows",
        ids=ids,
        columns=columns,
        asked=asked,
    )


def _is_simple(row: object, names: Sequence[str]) -> bool:
    """Whether a row has an id and scores, and nothing that changes their meaning."""
    if not isinstance(row, dict) or row.keys() & _OTHER:
        return False
    return any(key in row for key in IDS) and all(name in row for name in names)


def _is_plain(values: Sequence[Any]) -> bool:
    kinds = {*map(type, values)}
    return kinds <= {bool, int, float} and (
        float not in kinds or all(map(isfinite, values))
    )
