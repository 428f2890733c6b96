"""Summary of a run: a table of tasks, metrics and gates, notes, counts, times."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Mapping

from pytest_evals.core.result import RunResult
from pytest_evals.reports.escape import one_line
from pytest_evals.reports.overview.counts import count_lines
from pytest_evals.reports.overview.remarks import remarks
from pytest_evals.reports.overview.rows import COLUMNS, run_columns, run_rows
from pytest_evals.reports.overview.table import (
    TableLine,
    TableRow,
    table_lines,
    table_width,
)

_CHANGE = "change"
"""Title of the column of changes."""


def summary_lines(
    result: RunResult,
    width: int,
    path: str = "",
    *,
    reported: Collection[tuple[str, str]] = (),
    verbosity: int = 0,
) -> list[TableLine]:
    """Yield the summary, at most ``width`` columns wide except for paths.

    Args:
        path: Folder of the results, empty if they were not written.
        reported: Task and id of the gates that are reported in full elsewhere.
        verbosity: pytest's; below 0 without counts and times, above 0 with the methods
            of gates.
    """
    lines = []
    if result.partial:
        lines += _wrapped(f"partial run: {result.partial}", width, {"yellow": True})
    n_scored = sum(m.n_scored for task in result.tasks for m in task.metrics)
    rows = list(run_rows(result)) if n_scored or not result.partial else []
    columns = run_columns(result)
    if rows:
        if table_width(columns, rows) > width:
            rows = [_with_filter(row) for row in rows]
        table = table_lines(columns, rows, width)
        if _CHANGE not in table[0].text:
            rows = [_without_interval(row) for row in rows]
            table = table_lines(COLUMNS, rows, width)
        lines += table
    for text, markup in remarks(result, reported, shows_methods=verbosity > 0):
        lines += _wrapped(text, width, markup)
    for text in () if verbosity < 0 else count_lines(result):
        lines += _wrapped(text, width, {})
    if path:
        lines.append(TableLine(f"results: {one_line(path)}"))
    return lines


def _with_filter(row: TableRow) -> TableRow:
    """Append the filter to its metric, ``exact_match,strict-match``, instead of a
    separate column."""
    *before, name, metric, value, error, change, claim, word = row.cells
    key = f"{metric},{name}" if name else metric
    return TableRow((*before, "", key, value, error, change, claim, word), row.markup)


def _without_interval(row: TableRow) -> TableRow:
    """Omit the interval of a change, with which the column of changes does not fit."""
    *before, change, claim, word = row.cells
    change = re.sub(r" \[.*\]", "", change)
    return TableRow((*before, change, claim, word), row.markup)


def _wrapped(text: str, width: int, markup: Mapping[str, bool]) -> list[TableLine]:
    lines = textwrap.wrap(one_line(text), max(width, 20), subsequent_indent="    ")
    return [TableLine(one_line(line), markup) for line in lines]
