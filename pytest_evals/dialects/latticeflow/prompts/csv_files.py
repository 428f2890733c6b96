"""Reads CSV files with column types.

A column is read as booleans, integers or floats if all of its cells are, and as strings
otherwise. An empty cell is ``None``. The document id is always a string.
"""

from __future__ import annotations

import csv
import io
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pytest_evals.errors import Place, Problem, TaskFileError

_ID = "sample_id"
_INTEGER = re.compile(r"[+-]?(?:0|[1-9]\d{0,17})")
"""A leading zero marks a code, and more than 18 digits are not read as a number."""
_NUMBER = re.compile(
    r"[+-]?(?:(?:0|[1-9]\d*)?\.\d+|(?:0|[1-9]\d*)\.?)(?:[eE][+-]?\d+)?"
)


def read_csv(path: Path, text: str, *, typed: bool = True) -> list[dict[str, Any]]:
    """Return the rows of a file.

    Args:
        typed: Whether columns are converted from strings.

    Raises:
        TaskFileError: It is invalid CSV, or a row has more cells than the header.
    """
    header, rows = _cells(path, text)
    columns = [
        _column(name, [row[n] for row in rows], typed=typed)
        for n, name in enumerate(header)
    ]
    return [
        dict(zip(header, values, strict=True)) for values in zip(*columns, strict=True)
    ]


def _cells(path: Path, text: str) -> tuple[list[str], list[list[str]]]:
    """Return the header and the rows; missing cells at the end of a row are empty."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    longest = csv.field_size_limit(sys.maxsize)
    rows = []
    try:
        header = next(reader, [])
        _check_header(path, header)
        for cells in reader:
            if len(cells) > len(header):
                what = f"{len(cells)} cells, but the header has {len(header)}"
                fix = "quote cells that contain a comma or a line break"
                raise TaskFileError([Problem(what, Place(path, reader.line_num), fix)])
            if cells:
                rows.append(cells + [""] * (len(header) - len(cells)))
    except csv.Error as error:
        place = Place(path, reader.line_num)
        raise TaskFileError([Problem(f"invalid CSV: {error}", place)]) from None
    finally:
        csv.field_size_limit(longest)
    return header, rows


def _check_header(path: Path, header: Sequence[str]) -> None:
    for name in header:
        if header.count(name) > 1 or not name.strip():
            what = f"duplicate column {name!r}"
            if not name.strip():
                what = "a column has no name"
            raise TaskFileError([Problem(what, Place(path, 1))])


def _column(name: str, cells: Sequence[str], *, typed: bool) -> Sequence[Any]:
    if not typed:
        return cells
    filled_cells = [cell for cell in cells if cell != ""]
    convert = str if name == _ID else _conversion(filled_cells)
    return [None if cell == "" else convert(cell) for cell in cells]


def _conversion(cells: Sequence[str]) -> Callable[[str], Any]:
    if all(cell.lower() in ("true", "false") for cell in cells):
        return lambda cell: cell.lower() == "true"
    if all(_INTEGER.fullmatch(cell) for cell in cells):
        return int
    if all(_NUMBER.fullmatch(cell) for cell in cells):
        return float
    return str
