"""Lines of rows in data files, for messages."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from pytest_evals.errors import Place

_DELIMITERS = ";\t|"


class RowPlaces:
    """Places of the rows of a file; its lines are read at the first access."""

    def __init__(self, path: Path, read: Callable[[], list[int]] | None = None) -> None:
        """``read`` returns the lines of a file that is not one of data."""
        self.path, self._read = path, read

    def __call__(self, number: int) -> Place:
        """Return the file and line of a row, counted from 0; only the file if its lines
        are not rows, as in a JSON list, or if it is compressed."""
        lines = self.lines
        return Place(self.path, lines[number] if number < len(lines) else 0)

    def with_path(self) -> tuple[Path, list[int]]:
        """Return the file and all lines."""
        return self.path, self.lines

    @cached_property
    def lines(self) -> list[int]:
        """The first line of each row; empty if lines are not rows."""
        if self._read is not None:
            return self._read()
        with suppress(OSError, UnicodeError, csv.Error):
            if self.path.suffix == ".jsonl":
                with self.path.open(encoding="utf-8-sig") as file:
                    return [n for n, line in enumerate(file, 1) if line.strip()]
            if self.path.suffix in (".csv", ".tsv"):
                with self.path.open(encoding="utf-8-sig", newline="") as file:
                    return [*_starts(csv.reader(file))][1:]
        return []


def _starts(reader: Any) -> Iterator[int]:
    """Yield the first line of each row of a CSV file, the header included."""
    end = 0
    for cells in reader:
        if cells:
            yield end + 1
        end = reader.line_num


def likely_delimiter(header: str) -> str:
    """Return what separates the names in the only column of a table; empty if it is one
    name."""
    return next((one for one in _DELIMITERS if one in header), "")
