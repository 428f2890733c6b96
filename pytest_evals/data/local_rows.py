"""Rows of JSON, CSV and text files where the ``datasets`` library is not installed.

They equal those of the library: every row has all keys, all numbers of a column are
floats if one is, and cells of typed CSV files are numbers, booleans or ``None``. Only
texts that look like times stay texts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from pytest_evals.data.csv_rows import read_csv_rows
from pytest_evals.data.data_files import open_data

Rows = list[dict[str, Any]]
_ARGUMENTS = {"json": {"field"}, "csv": {"sep", "delimiter"}, "text": set[str]()}
"""Reader → its arguments besides ``data_files``."""
# fmt: off
_MISSING = frozenset((
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND",
    "1.#QNAN", "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null",
))
# fmt: on
"""Cells that pandas reads as missing."""
_BOOLEANS = {
    text: value for value in (True, False) for text in (f"{value}", f"{value}".upper())
}


def can_read(reader: str, arguments: Mapping[str, Any]) -> bool:
    """Whether the files of a reader of ``datasets`` can be read."""
    known = _ARGUMENTS.get(reader)
    return known is not None and arguments.keys() - {"data_files"} <= known


def read_local_rows(
    reader: str,
    files: Mapping[str, Sequence[Path]],
    arguments: Mapping[str, Any],
    *,
    as_text: bool,
) -> dict[str, Rows]:
    """Rows by split.

    Args:
        reader: ``json``, ``csv`` or ``text``.
        files: Split → its files, in order.
        arguments: The other arguments of ``datasets.load_dataset``.
        as_text: Whether cells of CSV files stay text.

    Raises:
        TaskFileError: A CSV file is not a table.
        ValueError: A file is not JSON.
        OSError: A file cannot be read.
    """
    if reader == "csv":
        separator = arguments.get("sep") or arguments.get("delimiter") or ","
        splits = read_csv_rows(files, separator)
        return (
            splits if as_text else {k: _by_column(v, _typed) for k, v in splits.items()}
        )
    read = (
        _lines if reader == "text" else partial(_objects, field=arguments.get("field"))
    )
    return {
        split: _by_column([row for path in paths for row in read(path)], _unified)
        for split, paths in files.items()
    }


def _lines(path: Path) -> Iterable[dict[str, Any]]:
    with open_data(path) as file:
        return [{"text": line} for line in file.read().decode().splitlines()]


def _objects(path: Path, field: str | None) -> Iterable[dict[str, Any]]:
    with open_data(path) as file:
        data = file.read().removeprefix(b"\xef\xbb\xbf")
    if field is None and not data.lstrip().startswith(b"["):
        return [_value(line) for line in data.split(b"\n") if line.strip()]
    found = _value(data)
    found = found[field] if field is not None else found
    if isinstance(found, Mapping):  # columns
        return [
            dict(zip(found, row, strict=True))
            for row in zip(*found.values(), strict=True)
        ]
    return [*found]


def _value(data: bytes) -> Any:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:  # NaN is a number to the library
        return json.loads(data)


def _by_column(rows: Rows, convert: Callable[[list[Any]], list[Any]]) -> Rows:
    names = dict.fromkeys(name for row in rows for name in row)
    columns = [convert([row.get(name) for row in rows]) for name in names]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _unified(values: list[Any]) -> list[Any]:
    """Values of one column, each with the same keys and kinds of numbers."""
    given = [one for one in values if one is not None]
    kinds = {*map(type, given)}
    same: Iterator[Any]
    if kinds == {dict} and len({frozenset(one) for one in given}) == 1:
        same = iter(_by_column(given, _unified))
    elif kinds == {list}:
        items = iter(_unified([item for one in given for item in one]))
        same = iter([[next(items) for _ in one] for one in given])
    elif kinds == {int, float}:
        same = map(float, given)
    else:
        return values
    return [None if one is None else next(same) for one in values]


def _typed(cells: list[str]) -> list[Any]:
    """Cells of one column as booleans, integers, floats, or texts."""
    given = [one for one in cells if one not in _MISSING]
    if given and all(one in _BOOLEANS for one in given):
        return [_BOOLEANS.get(one) for one in cells]
    for kind in (int, float):
        try:
            numbers = {one: kind(one.replace("_", "?")) for one in given}
        except ValueError:
            continue
        if len(given) < len(cells):
            return [float(numbers[o]) if o in numbers else None for o in cells]
        return [numbers[one] for one in cells]
    return [None if one in _MISSING else one for one in cells]
