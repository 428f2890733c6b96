"""Table layout that fits a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pytest_evals.reports.escape import cells, cut

_GAP = "  "


@dataclass(frozen=True, slots=True)
class TableLine:
    """A line and its markup for pytest's terminal writer: ``{"red": True}``. The text
    is complete without colour."""

    text: str
    markup: Mapping[str, bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableColumn:
    """A column.

    Args:
        title: Its heading.
        right: Whether it is right-aligned.
        drop: Columns with the lowest number above 0 are removed first if the table is
            too wide; 0 is never removed.
        least: Minimum width to which it is truncated if no more columns can be removed;
            0 is never truncated.
    """

    title: str
    right: bool = False
    drop: int = 0
    least: int = 0


@dataclass(frozen=True, slots=True)
class TableRow:
    """One cell for each column."""

    cells: tuple[str, ...]
    markup: Mapping[str, bool] = field(default_factory=dict)


def table_lines(
    columns: Sequence[TableColumn], rows: Sequence[TableRow], width: int
) -> list[TableLine]:
    """Yield heading and rows, none wider than the terminal. Empty columns are
    omitted."""
    widths = _widths(columns, rows)
    droppable = sorted((columns[i].drop, i) for i in widths if columns[i].drop)
    while droppable and _total(widths) > width:
        del widths[droppable.pop(0)[1]]
    for i in list(widths):
        excess = _total(widths) - width
        if excess > 0 and columns[i].least:
            widths[i] = max(columns[i].least, widths[i] - excess)
    heading = TableRow(tuple(column.title for column in columns), {"bold": True})
    return [
        TableLine(_text(row, columns, widths, width), row.markup)
        for row in (heading, *rows)
    ]


def table_width(columns: Sequence[TableColumn], rows: Sequence[TableRow]) -> int:
    """Return the terminal width at which nothing is omitted."""
    return _total(_widths(columns, rows))


def _widths(columns: Sequence[TableColumn], rows: Sequence[TableRow]) -> dict[int, int]:
    """Return the width of the widest cell of each column that is not empty."""
    kept = [i for i, _ in enumerate(columns) if any(row.cells[i] for row in rows)]
    return {
        i: max(cells(columns[i].title), *(cells(row.cells[i]) for row in rows))
        for i in kept
    }


def _total(widths: Mapping[int, int]) -> int:
    return sum(widths.values()) + len(_GAP) * (len(widths) - 1)


def _text(
    row: TableRow, columns: Sequence[TableColumn], widths: Mapping[int, int], width: int
) -> str:
    parts = []
    for i, room in widths.items():
        text = cut(row.cells[i], room)
        space = " " * (room - cells(text))
        parts.append(space + text if columns[i].right else text + space)
    return cut(_GAP.join(parts).rstrip(), width)
