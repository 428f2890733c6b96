"""Rows of CSV and TSV files as they are written: every cell is text, and an empty cell
is an empty text.

The ``datasets`` library infers the types of columns: ``4.90`` becomes 4.9, ``007``
becomes 7, and integers become floats if a cell is empty.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_evals.data.data_files import open_data
from pytest_evals.data.line_places import likely_delimiter
from pytest_evals.errors import Place, Problem, TaskFileError

_LONGEST_CELL = 2**31 - 1


def read_csv_rows(
    files: Mapping[str, Sequence[Path]], separator: str
) -> dict[str, list[dict[str, Any]]]:
    """Return rows by split. ``files``: split → its files, in order.

    Raises:
        TaskFileError: A file is not a table, with its line.
        OSError: A file cannot be read, or is an archive.
        UnicodeDecodeError: It is not UTF-8.
    """
    splits: dict[str, list[dict[str, Any]]] = {}
    for split, paths in files.items():
        rows = splits.setdefault(split, [])
        for path in paths:
            added = [*_rows(path, separator)]
            if rows and added and list(added[0]) != list(rows[0]):
                raise _error(path, 1, f"the columns differ from those of {paths[0]}")
            rows += added
    return splits


def _rows(path: Path, separator: str) -> Iterator[dict[str, Any]]:
    limit = csv.field_size_limit(_LONGEST_CELL)
    try:
        with (
            open_data(path) as data,
            io.TextIOWrapper(data, encoding="utf-8-sig", newline="") as text,
        ):
            reader = csv.reader(text, delimiter=separator, strict=True)
            try:
                columns = _columns(next(filter(None, reader), []), path)
                for cells in filter(None, reader):
                    yield _row(columns, cells, Place(path, reader.line_num))
            except csv.Error as error:
                fix = 'write a quote inside of a quoted cell twice: "a ""quoted"" word"'
                raise _error(path, reader.line_num, str(error), fix) from None
    finally:
        csv.field_size_limit(limit)


def _columns(header: Sequence[str], path: Path) -> Sequence[str]:
    """The names in a header; a column without a name is called as by pandas."""
    if not header:
        raise _error(path, 0, "the file has no rows")
    if len(header) == 1 and (found := likely_delimiter(header[0])):
        what = f"the only column is {header[0]!r}: the delimiter seems to be {found!r}"
        fix = f"dataset: {{path: {path.name}, delimiter: {json.dumps(found)}}}"
        raise _error(path, 1, what, fix)
    names = [name or f"Unnamed: {n}" for n, name in enumerate(header)]
    for n, name in enumerate(names):
        if names.index(name) != n:
            what = f"columns {names.index(name) + 1} and {n + 1} are both {name!r}"
            raise _error(path, 1, what, "rename one of them")
    return names


def _row(columns: Sequence[str], cells: Sequence[str], place: Place) -> dict[str, Any]:
    """The row of a line; cells that are missing at its end are empty."""
    if len(cells) > len(columns):
        what = f"{len(cells)} cells, and the header has {len(columns)}"
        fix = "put quotes around cells that contain the separator"
        raise _error(place.path, place.line, what, fix)
    return dict.fromkeys(columns, "") | dict(zip(columns, cells, strict=False))


def _error(path: Path, line: int, what: str, fix: str = "") -> TaskFileError:
    return TaskFileError([Problem(what, Place(path, line), fix)])
