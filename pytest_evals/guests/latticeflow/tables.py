"""Rows of files, folders, URLs and the Hugging Face Hub."""

from __future__ import annotations

import csv
import hashlib
import io
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from pytest_evals.data.hub import datasets_library, reading_datasets
from pytest_evals.data.json_rows import json_row
from pytest_evals.data.rows import Table
from pytest_evals.data.source_paths import Source
from pytest_evals.data.sources import load
from pytest_evals.data.user_files import decode_text, read_text
from pytest_evals.data.yaml_loader import BoundedLoader
from pytest_evals.errors import Place, Problem, TaskFileError

ID = "sample_id"  # The id column; ids are generated if it is missing
Rows = list[dict[str, Any]]
_FRONT = re.compile(r"---[ \t]*\n(?P<block>.*?\n)?---[ \t]*(?:\n|\Z)", re.DOTALL)
_INTEGER = re.compile(r"[+-]?(?:0|[1-9]\d{0,17})")
"""A leading zero marks a code, and more than 18 digits are not read as a number."""
_NUMBER = re.compile(
    r"[+-]?(?:(?:0|[1-9]\d*)?\.\d+|(?:0|[1-9]\d*)\.?)(?:[eE][+-]?\d+)?"
)


def table_rows(path: Path, place: Place, *, typed: bool) -> Rows:
    """Return the rows of a CSV or JSONL file; ``place`` is that of its name."""
    if not os.path.isfile(path):
        near = path.parent.glob(f"*{path.suffix}") if path.parent.is_dir() else ()
        names = ", ".join(sorted(one.name for one in near)[:5])
        there = f"; files there: {names}" if names else ""
        message = f"file_path: file not found: {str(Place(path))!r}{there}"
        fix = f"give a path relative to {place.path.name}"
        raise TaskFileError([Problem(message, place, fix)])
    stat = path.stat()
    return [*_table(path.resolve(), (stat.st_mtime_ns, stat.st_size), typed)]


@lru_cache(maxsize=64)
def _table(path: Path, _stamp: tuple[int, int], typed: bool) -> Rows:
    is_csv = path.suffix.lower() == ".csv"
    return _rows(path, read_text(path), None, is_csv=is_csv, typed=typed)


def _rows(
    path: Path, text: str, place: Place | None, *, is_csv: bool, typed: bool
) -> Rows:
    """Return the rows of a text; errors of JSON are at ``place``, or at the line."""
    if is_csv:
        return read_csv(path, text, typed=typed)
    rows = []
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                rows.append(json_row(line))
            except ValueError as error:
                where = place or Place(path, number)
                raise TaskFileError([Problem(str(error), where)]) from None
    return rows


def download(url: str, place: Place, *, typed: bool) -> Rows:
    """Return the rows of a file at a URL; the ``datasets`` library caches it."""
    datasets = datasets_library(f"url: {url!r}")
    try:
        with reading_datasets():
            path = Path(datasets.DownloadManager().download(url))
        text = path.read_bytes().decode("utf-8-sig")
    except Exception as error:
        message = f"url: {url!r} cannot be fetched: {type(error).__name__}: {error}"
        raise TaskFileError([Problem(message, place, unreachable=True)]) from error
    is_csv = url.partition("?")[0].lower().endswith(".csv")
    return _rows(Path(url), text, place, is_csv=is_csv, typed=typed)


def hub_rows(
    path: str,
    split: str,
    arguments: Mapping[str, Any],
    places: tuple[Place, Place],
    base: Path,
) -> Rows:
    """Return the rows of a split on the Hub. ``places``: those of path and split."""
    others = {key: one for key, one in arguments.items() if key != "name"}
    source = Source(
        path=path,
        name=arguments.get("name"),
        arguments=others,
        place=places[0],
        data_place=places[0],
        base=base,
    )
    rows = _select_split(load(source), path, split, places[1])
    return [dict(row) for row in Table(rows)]


def _select_split(splits: Mapping[str, Any], path: str, split: str, at: Place) -> Any:
    """Return a split, or a part of one such as ``test[:100]``."""
    if split in splits:
        return splits[split]
    datasets = datasets_library(f"split: {split!r}")
    lengths = {name: len(rows) for name, rows in splits.items()}
    try:
        parts = datasets.ReadInstruction.from_spec(split).to_absolute(lengths)
    except Exception as error:
        message = f"split: {path!r} has no split {split!r}"
        problem = Problem(message, at, f"available splits: {', '.join(splits)}")
        raise TaskFileError([problem]) from error
    found = [splits[one.splitname].select(range(one.from_, one.to)) for one in parts]
    return found[0] if len(found) == 1 else datasets.concatenate_datasets(found)


def folder_rows(folder: Path, extension: str, place: Place) -> Rows:
    """Return a row for each text file of a folder and its subfolders. ``extension``:
    without a dot, in lower case; empty for all files except PDFs. ``place`` is that of
    the folder's name.

    Columns are ``sample_id`` (SHA-256 of the bytes), ``file_name`` and ``content``.
    YAML front matter between ``---`` lines adds columns and is not part of the content.
    """
    if not os.path.isdir(folder):
        message = f"directory_path: folder not found: {str(Place(folder))!r}"
        fix = f"give a path relative to {place.path.name}"
        raise TaskFileError([Problem(message, place, fix)])
    selected = [
        path
        for path in folder.rglob("*")
        if path.is_file()
        and path.suffix.lower() != ".pdf"
        and (not extension or path.suffix.lower() == f".{extension}")
    ]
    ordered = sorted(selected, key=lambda path: path.relative_to(folder).as_posix())
    return [_document(path) for path in ordered]


def _document(path: Path) -> dict[str, Any]:
    raw = path.read_bytes()
    columns, content = _split_front_matter(decode_text(raw, path).replace("\r\n", "\n"))
    fields = {ID: hashlib.sha256(raw).hexdigest(), "file_name": path.name}
    return {**columns, **fields, "content": content}


def _split_front_matter(text: str) -> tuple[dict[str, Any], str]:
    """Return the front matter's columns and the rest; invalid ones are content."""
    match = _FRONT.match(text)
    if match is None:
        return {}, text
    try:
        columns = yaml.load(match["block"] or "", BoundedLoader)
    except (yaml.YAMLError, ValueError, RecursionError):
        return {}, text
    if not isinstance(columns, dict):
        return {}, text
    return {str(name): value for name, value in columns.items()}, text[match.end() :]


def read_csv(path: Path, text: str, *, typed: bool = True) -> Rows:
    """Return the rows of a text. ``typed``: whether a column is read as booleans,
    integers or floats if all of its cells are; otherwise cells are strings. An empty
    cell is ``None``. The document id is always a string."""
    header, rows = _cells(path, text)
    columns: list[Sequence[Any]] = []
    for n, name in enumerate(header):
        cells = [row[n] for row in rows]
        if typed:
            convert = str if name == ID else _conversion([x for x in cells if x != ""])
            columns.append([None if x == "" else convert(x) for x in cells])
        else:
            columns.append(cells)
    return [dict(zip(header, row, strict=True)) for row in zip(*columns, strict=True)]


def _cells(path: Path, text: str) -> tuple[list[str], list[list[str]]]:
    """Return the header and the rows; missing cells at the end of a row are empty."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    longest = csv.field_size_limit(sys.maxsize)
    rows = []
    try:
        header = next(reader, [])
        for name in header:
            if header.count(name) > 1 or not name.strip():
                named = f"duplicate column {name!r}"
                message = named if name.strip() else "a column has no name"
                raise TaskFileError([Problem(message, Place(path, 1))])
        for cells in reader:
            if len(cells) > len(header):
                message = f"{len(cells)} cells, but the header has {len(header)}"
                fix = "quote cells that contain a comma or a line break"
                raise TaskFileError(
                    [Problem(message, Place(path, reader.line_num), fix)]
                )
            if cells:
                rows.append(cells + [""] * (len(header) - len(cells)))
    except csv.Error as error:
        place = Place(path, reader.line_num)
        raise TaskFileError([Problem(f"invalid CSV: {error}", place)]) from None
    finally:
        csv.field_size_limit(longest)
    return header, rows


def _conversion(cells: Sequence[str]) -> Callable[[str], Any]:
    if all(cell.lower() in ("true", "false") for cell in cells):
        return lambda cell: cell.lower() == "true"
    if all(_INTEGER.fullmatch(cell) for cell in cells):
        return int
    if all(_NUMBER.fullmatch(cell) for cell in cells):
        return float
    return str
