"""Rows of local JSON, CSV and text files without the ``datasets`` library.

Importing the library takes longer than collecting most local suites. It infers column
types: integers become floats if the column has floats, strings become timestamps if all
look like one, missing keys become ``None``. JSON lines whose rows all have the same
keys, and columns of a single plain type, have the same rows here; all others are left
to the library.

Where it is not installed, rows equal those of the library: every row has all keys, all
numbers of a column are floats if one is, and cells of typed CSV files are numbers,
booleans or ``None``. Only texts that look like times stay texts. Other cells of CSV and
TSV files are text as written, and an empty cell is an empty text: the library infers
the types of columns, so that ``4.90`` becomes 4.9, ``007`` becomes 7, and integers
become floats if a cell is empty.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import orjson

from pytest_evals.data.source_paths import likely_delimiter, open_data
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
        message = (
            f"the only column is {header[0]!r}: the delimiter seems to be {found!r}"
        )
        fix = f"dataset: {{path: {path.name}, delimiter: {json.dumps(found)}}}"
        raise _error(path, 1, message, fix)
    names = [name or f"Unnamed: {n}" for n, name in enumerate(header)]
    for n, name in enumerate(names):
        if names.index(name) != n:
            message = f"columns {names.index(name) + 1} and {n + 1} are both {name!r}"
            raise _error(path, 1, message, "rename one of them")
    return names


def _row(columns: Sequence[str], cells: Sequence[str], place: Place) -> dict[str, Any]:
    """The row of a line; cells that are missing at its end are empty."""
    if len(cells) > len(columns):
        message = f"{len(cells)} cells, and the header has {len(columns)}"
        fix = "put quotes around cells that contain the separator"
        raise _error(place.path, place.line, message, fix)
    return dict.fromkeys(columns, "") | dict(zip(columns, cells, strict=False))


def _error(path: Path, line: int, message: str, fix: str = "") -> TaskFileError:
    return TaskFileError([Problem(message, Place(path, line), fix)])


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


LARGEST = 8 * 2**20
"""Maximum bytes of a file; the library reads larger ones in pieces and keeps them on
disk."""
_INT64 = 2**63
_TIME = re.compile(r"\s*[+-]?\d{4}-?\d\d")
"""Start of strings that may be read as timestamps."""
_ESCAPED = re.compile(rb"\\u(?:[dD][89a-fA-F]|0000)")
"""Surrogates and the null character, which readers treat differently."""
_RECORDED = frozenset({"messages", "payload"})
"""Columns of agent logs, which the library converts."""


def read_json_lines(files: Mapping[str, Sequence[Path]]) -> dict[str, Rows] | None:
    """Return rows by split; ``None`` if the library may read them differently.
    ``files``: split → its files, in order."""
    known: dict[str, str] = {}
    splits: dict[str, Rows] = {}
    try:
        for split, paths in files.items():
            kinds = [_read(path, splits.setdefault(split, [])) for path in paths]
            for one in kinds:
                known = known or one
                if list(known.items()) != list(one.items()):
                    raise _NotPlainError
    except (_NotPlainError, OSError, TypeError, ValueError, RecursionError):
        return None  # the library reads them, or says what is wrong
    return splits


class _NotPlainError(Exception):
    """Readers may interpret the data differently."""


def _read(path: Path, rows: Rows) -> dict[str, str]:
    """Add the rows of a file and return the types of its columns.

    Raises:
        _NotPlainError: The library may read it differently.
        ValueError: It is not JSON, or not UTF-8.
        TypeError: A line is not an object.
    """
    if path.suffix not in (".json", ".jsonl") or path.stat().st_size > LARGEST:
        raise _NotPlainError
    data = path.read_bytes()
    if not data.startswith(b"{") or _ESCAPED.search(data):
        raise _NotPlainError
    lines = data.decode("utf-8").removesuffix("\n").split("\n")
    rows_ = [_DECODER.decode(line) for line in lines]
    columns = list(rows_[0])
    if any(list(row) != columns for row in rows_) or _RECORDED & set(columns):
        raise _NotPlainError
    rows += rows_
    return {name: _column_kind([row[name] for row in rows_]) for name in columns}


def _column_kind(values: Sequence[Any]) -> str:
    kinds = set(map(_kind, values)) - {""}
    if len(kinds) != 1:
        # Columns of None only, or of empty lists only, have a special type.
        raise _NotPlainError
    return kinds.pop()


def _kind(value: Any) -> str:
    """Return the type of a value; empty for ``None``, which is compatible with all."""
    if value is None:
        return ""
    if isinstance(value, list):
        inner = {_plain_kind(item) for item in value}
        if len(inner) > 1:
            raise _NotPlainError
        return f"list of {inner.pop()}" if inner else ""
    return _plain_kind(value)


def _plain_kind(value: Any) -> str:
    if isinstance(value, str):
        if _TIME.match(value):
            raise _NotPlainError
        return "string"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int) and -_INT64 <= value < _INT64:
        return "integer"
    if isinstance(value, float) and math.isfinite(value):
        return "number"
    raise _NotPlainError


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) != len(pairs):
        raise _NotPlainError
    return row


def _refuse_constant(text: str) -> NoReturn:
    raise _NotPlainError


_DECODER = json.JSONDecoder(
    object_pairs_hook=_unique_keys, parse_constant=_refuse_constant
)
