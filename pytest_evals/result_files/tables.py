"""Rows of JSON Lines, JSON arrays, CSV and Parquet files, each with its place."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from pytest_evals.errors import MissingExtraError, OptionError

SUFFIXES = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet")
_LONGEST_CELL = 2**31 - 1


class PlacedRow(NamedTuple):
    """A row, and its file and line."""

    at: str
    fields: Mapping[str, Any]


def is_table(path: Path) -> bool:
    """Whether a file may have rows, by its suffix; of JSON files those with an array,
    since others are settings and summaries."""
    suffix = _suffix(path)
    if suffix == ".json":
        return read_bytes(path).lstrip()[:1] == b"["
    return suffix in SUFFIXES


def _suffix(path: Path) -> str:
    """The suffix of the content: that before ``.gz``."""
    suffixes = [one.lower() for one in path.suffixes if one.lower() != ".gz"]
    return suffixes[-1] if suffixes else ""


def read_table(path: Path) -> list[PlacedRow]:
    """The rows of a file, by its suffix; without a known one, JSON Lines.

    Raises:
        OptionError: It cannot be read, or a row is not an object.
        MissingExtraError: A library that reads the format is not installed.
    """
    suffix = _suffix(path)
    if suffix == ".parquet":
        return [*_parquet(path)]
    data = read_bytes(path)
    if suffix in (".csv", ".tsv"):
        return [*_cells(path, data)]
    if data.lstrip()[:1] == b"[" and (suffix == ".json" or b"\n" in data.strip()):
        with suppress(OptionError):  # lines that are arrays: each is reported
            rows = parse_json(data, path)
            return [_checked(f"{path}, row {n}", row) for n, row in enumerate(rows)]
    return [*_lines(path, data)]


def read_bytes(path: Path) -> bytes:
    """The content of a file, without a byte order mark; of ``.gz`` decompressed.

    Raises:
        OptionError: It cannot be read.
    """
    try:
        data = path.read_bytes()
        if path.suffix == ".gz":
            data = gzip.decompress(data)
    except (OSError, EOFError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise OptionError(f"{path}: cannot be read: {why}") from None
    return data.removeprefix(b"\xef\xbb\xbf")


def parse_json(data: bytes, at: object) -> Any:
    """A JSON value; NaN and Infinity are numbers, as other programs write them.

    Raises:
        OptionError: It is not JSON.
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        pass
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise OptionError(
            f"{at}: invalid JSON\n  fix: name results, not the eval"
        ) from None


def _lines(path: Path, data: bytes) -> Iterator[PlacedRow]:
    # Only \n ends a line: JSON strings may contain other separators, such as U+2028.
    for number, line in enumerate(data.split(b"\n"), start=1):
        if line.strip():
            at = f"{path}:{number}"
            yield _checked(at, parse_json(line, at))


def _checked(at: str, row: Any) -> PlacedRow:
    if not isinstance(row, dict):
        raise OptionError(f"{at}: a row must be an object, not {row!r:.40}")
    return PlacedRow(at, row)


def _cells(path: Path, data: bytes) -> Iterator[PlacedRow]:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise OptionError(f"{path}: it is not UTF-8: {error}") from None
    limit = csv.field_size_limit(_LONGEST_CELL)
    try:
        header = text.partition("\n")[0]
        separator = max(",;\t", key=header.count)
        reader = csv.DictReader(
            io.StringIO(text, newline=""), delimiter=separator, strict=True
        )
        for row in reader:
            at = f"{path}:{reader.line_num}"
            if None in row or None in row.values():
                raise OptionError(f"{at}: the line has not as many cells as the header")
            yield PlacedRow(at, row)
    except csv.Error as error:
        raise OptionError(f"{path}: not a table: {error}") from None
    finally:
        csv.field_size_limit(limit)


def _parquet(path: Path) -> Iterator[PlacedRow]:
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import read_table as read
    except ImportError:
        raise MissingExtraError("a Parquet file", "pyarrow", "data") from None
    try:
        rows = read(path).to_pylist()
    except (OSError, ArrowException) as error:
        why = str(error).partition("\n")[0]
        raise OptionError(f"{path}: not a Parquet file: {why}") from None
    for number, row in enumerate(rows):
        yield PlacedRow(f"{path}, row {number}", row)
