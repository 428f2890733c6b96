"""Table layout that fits a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pytest_evals.reports.escape import cells, cut, middle

_GAP = "  "


@dataclass(frozen=True, slots=True)
class TableLine:
    """A line and its markup for pytest's terminal writer: ``{"red": True}``. The text
    is complete without colour."""

    text: str
    markup: Mapping[str, bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableColumn:
    """A column."""

    title: str
    right: bool = False
    rank: int = 0
    """Order in which columns give way if the table is too wide; 0 is never changed."""
    least: int = 0
    """Width down to which cells are shortened; 0 removes the column instead."""


@dataclass(frozen=True, slots=True)
class TableRow:
    """One cell for each column."""

    cells: tuple[str, ...]
    markup: Mapping[str, bool] = field(default_factory=dict)


def table_lines(
    columns: Sequence[TableColumn], rows: Sequence[TableRow], width: int
) -> list[TableLine]:
    """Return heading and rows, none wider than the terminal.

    Empty columns are omitted. Shortened cells lose their middle, and cells that differ
    stay different.
    """
    widths = _widths(columns, rows)
    _remove(widths, columns, width)
    for rank in sorted({columns[i].rank for i in widths}):
        _shrink(
            widths, {i: columns[i] for i in widths if columns[i].rank == rank}, width
        )
    shown = {i: _shortened((row.cells[i] for row in rows), widths[i]) for i in widths}
    heading = {i: cut(columns[i].title, widths[i]) for i in widths}
    lines = [TableLine(_text(heading, columns, widths, width), {"bold": True})]
    for row in rows:
        texts = {i: shown[i][row.cells[i]] for i in widths}
        lines.append(TableLine(_text(texts, columns, widths, width), row.markup))
    return lines


def _remove(widths: dict[int, int], columns: Sequence[TableColumn], width: int) -> None:
    """Remove columns that have no room even if those of a lower rank are shortened."""
    for i in sorted(widths, key=lambda i: columns[i].rank):
        rank = columns[i].rank
        least = {
            j: min(widths[j], columns[j].least)
            if columns[j].least and columns[j].rank < rank
            else widths[j]
            for j in widths
        }
        if rank and not columns[i].least and _total(least) > width:
            del widths[i]


def _shrink(
    widths: dict[int, int], columns: Mapping[int, TableColumn], width: int
) -> None:
    """Shorten these columns until the table fits, the widest first."""
    while _total(widths) > width:
        i = max(columns, key=lambda i: widths[i] if columns[i].least else 0)
        if not columns[i].least or widths[i] <= columns[i].least:
            return
        widths[i] -= 1


def _shortened(texts: Iterable[str], room: int) -> dict[str, str]:
    """Return each text in at most ``room`` terminal columns, all still different."""
    known = dict.fromkeys(texts)
    long = [text for text in known if cells(text) > room]
    kept = {text: text for text in known if cells(text) <= room}
    # Half from each end, else more of the end in which the texts differ.
    found: dict[str, str] = {}
    for head in sorted(range(room), key=lambda head: abs(2 * head - room)):
        found = {text: middle(text, room, head) for text in long}
        if len({*found.values(), *kept}) == len(known):
            return kept | found
    for n, text in enumerate(found, start=1):
        found[text] = cut(text, room - len(f"~{n}")) + f"~{n}"
    return kept | found


def table_width(columns: Sequence[TableColumn], rows: Sequence[TableRow]) -> int:
    """Return the terminal width at which nothing is omitted."""
    return _total(_widths(columns, rows))


def _widths(columns: Sequence[TableColumn], rows: Sequence[TableRow]) -> dict[int, int]:
    kept = [i for i, _ in enumerate(columns) if any(row.cells[i] for row in rows)]
    return {
        i: max(cells(columns[i].title), *(cells(row.cells[i]) for row in rows))
        for i in kept
    }


def _total(widths: Mapping[int, int]) -> int:
    return sum(widths.values()) + len(_GAP) * (len(widths) - 1)


def _text(
    texts: Mapping[int, str],
    columns: Sequence[TableColumn],
    widths: Mapping[int, int],
    width: int,
) -> str:
    parts = []
    for i, room in widths.items():
        space = " " * (room - cells(texts[i]))
        parts.append(space + texts[i] if columns[i].right else texts[i] + space)
    return cut(_GAP.join(parts).rstrip(), width)
