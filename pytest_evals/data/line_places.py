"""Lines of rows in data files, for messages."""

from __future__ import annotations

import csv
from contextlib import suppress
from itertools import islice
from pathlib import Path

from pytest_evals.errors import Place

_DELIMITERS = ";\t|"


def row_place(path: Path, number: int) -> Place:
    """Return the file and line of a row, counted from 0; only the file if its lines are
    not rows, as in a JSON list, or if it is compressed."""
    with suppress(OSError, UnicodeError, csv.Error):
        if path.suffix == ".jsonl":
            with path.open(encoding="utf-8-sig") as file:
                lines = (n for n, line in enumerate(file, 1) if line.strip())
                return Place(path, next(islice(lines, number, None), 0))
        if path.suffix in (".csv", ".tsv"):
            with path.open(encoding="utf-8-sig", newline="") as file:
                reader = csv.reader(file)
                lines = (reader.line_num for cells in reader if cells)
                return Place(path, next(islice(lines, number + 1, None), 0))
    return Place(path)


def likely_delimiter(header: str) -> str:
    """Return what separates the names in the only column of a table; empty if it is one
    name."""
    return next((one for one in _DELIMITERS if one in header), "")
