"""Rows of text as a table that fits a terminal. It knows nothing of what they say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pytest_evals.reports.escape import cells, cut

_GAP = "  "


@dataclass(frozen=True, slots=True)
class TableLine:
    """A line, and how pytest's terminal writer may colour it: ``{"red": True}``. The
    text says everything without the colour."""

    text: str
    markup: Mapping[str, bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableColumn:
    """A column.

    Args:
        title: Its heading.
        right: Whether it is aligned to the right.
        drop: The column with the lowest number above 0 is left out first when the
            table is too wide; 0 is never left out.
        least: Columns of the terminal to which it may be cut when nothing more can be
            left out; 0 is never cut.
    """

    title: str
    right: bool = False
    drop: int = 0
    least: int = 0


@dataclass(frozen=True, slots=True)
class TableRow:
    """One cell a column."""

    cells: tuple[str, ...]
    markup: Mapping[str, bool] = field(default_factory=dict)


def table_lines(
    columns: Sequence[TableColumn], rows: Sequence[TableRow], width: int
) -> list[TableLine]:
    """Heading and rows, none wider than the terminal. Empty columns are left out."""
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
    """Columns of the terminal that it takes to leave nothing out."""
    return _total(_widths(columns, rows))


def _widths(columns: Sequence[TableColumn], rows: Sequence[TableRow]) -> dict[int, int]:
    """Widest cell of each column that is not empty."""
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
