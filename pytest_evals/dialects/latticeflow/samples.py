"""Loads the rows of a dataset from its source, assigns ids and applies filters."""

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
from typing import Any, NamedTuple

import yaml

from pytest_evals.data.hub import reading_datasets
from pytest_evals.data.json_rows import json_row
from pytest_evals.data.rows import Table
from pytest_evals.data.sources import Source, load
from pytest_evals.data.user_files import decode_text, read_text
from pytest_evals.data.yaml_loader import BoundedLoader
from pytest_evals.dialects.latticeflow.dataset_file import (
    DatasetFile,
    FolderSource,
    GeneratedSource,
    HubSource,
    LocalSource,
    UrlSource,
)
from pytest_evals.dialects.latticeflow.filters import matching_rows
from pytest_evals.errors import (
    DocumentError,
    Place,
    Problem,
    TaskFileError,
    UnreachableError,
)

ID = "sample_id"
"""The id column; ids are generated if it is missing."""

Rows = list[dict[str, Any]]
Generate = Callable[[GeneratedSource], Rows]
"""Generates the rows of a generator."""
_FRONT = re.compile(r"---[ \t]*\n(?P<block>.*?\n)?---[ \t]*(?:\n|\Z)", re.DOTALL)
_SKIPPED = ".pdf"
_ID = "sample_id"
_INTEGER = re.compile(r"[+-]?(?:0|[1-9]\d{0,17})")
"""A leading zero marks a code, and more than 18 digits are not read as a number."""
_NUMBER = re.compile(
    r"[+-]?(?:(?:0|[1-9]\d*)?\.\d+|(?:0|[1-9]\d*)\.?)(?:[eE][+-]?\d+)?"
)


class _FileKey(NamedTuple):
    """Cache key of a file."""

    path: Path
    stamp: tuple[int, int]
    typed: bool


def load_rows(
    dataset: DatasetFile, generate: Generate, base: Path, *, typed: bool = True
) -> Rows:
    """Return the rows of a dataset after its filters. Each has a ``sample_id``: its
    own, or its position before filtering, as text.

    Args:
        base: Folder to which paths of ``huggingface`` sources are relative.
        typed: Whether cells of CSV files are converted from strings.
    """
    match dataset.source:
        case LocalSource() as source:
            rows = _table(source.path, source.place, typed=typed)
        case FolderSource() as source:
            rows = _folder(source)
        case UrlSource() as source:
            rows = _download(source, typed=typed)
        case HubSource() as source:
            rows = _hub_rows(source, base)
        case GeneratedSource() as source:
            rows = generate(source)
    numbered = [
        row if row.get(ID) is not None else {**row, ID: str(number)}
        for number, row in enumerate(rows)
    ]
    try:
        found = matching_rows(numbered, dataset.filters)
    except DocumentError as error:
        what = f"a filter of {dataset.key!r} fails: {error}"
        raise TaskFileError([Problem(what, dataset.place)]) from error
    if not found:
        what = f"the dataset {dataset.key!r} has no rows"
        after = " that match its filters" if rows else ""
        raise TaskFileError([Problem(what + after, dataset.place)])
    return found


def _table(path: Path, place: Place, *, typed: bool) -> Rows:
    if not os.path.isfile(path):
        is_near = os.path.isdir(path.parent)
        near = path.parent.glob(f"*{path.suffix}") if is_near else ()
        names = ", ".join(sorted(one.name for one in near)[:5])
        there = f"; files there: {names}" if names else ""
        what = f"file_path: file not found: {str(Place(path))!r}{there}"
        fix = f"give a path relative to {place.path.name}"
        raise TaskFileError([Problem(what, place, fix)])
    stat = path.stat()
    stamp = (stat.st_mtime_ns, stat.st_size)
    return [*_read(_FileKey(path.resolve(), stamp, typed))]


@lru_cache(maxsize=64)
def _read(key: _FileKey) -> Rows:
    """Return the rows of a file, cached so that tasks of one process share them."""
    path = key.path
    text = read_text(path)
    if path.suffix.lower() == ".csv":
        return read_csv(path, text, typed=key.typed)
    return [
        _json_row(line, Place(path, number))
        for number, line in enumerate(text.split("\n"), start=1)
        if line.strip()
    ]


def _json_row(line: str, place: Place) -> dict[str, Any]:
    try:
        return json_row(line)
    except ValueError as error:
        raise TaskFileError([Problem(str(error), place)]) from None


def _folder(source: FolderSource) -> Rows:
    if not os.path.isdir(source.path):
        what = f"directory_path: folder not found: {str(Place(source.path))!r}"
        fix = f"give a path relative to {source.place.path.name}"
        raise TaskFileError([Problem(what, source.place, fix)])
    return read_folder(source.path, source.extension)


def _download(source: UrlSource, *, typed: bool) -> Rows:
    """Download a file; the ``datasets`` library caches it."""
    import datasets

    suffix = (
        ".csv" if source.url.partition("?")[0].lower().endswith(".csv") else ".jsonl"
    )
    try:
        with reading_datasets():
            path = Path(datasets.DownloadManager().download(source.url))
        raw = path.read_bytes().decode("utf-8-sig")
    except Exception as error:
        what = f"url: {source.url!r} cannot be fetched: {type(error).__name__}: {error}"
        raise UnreachableError([Problem(what, source.place)]) from error
    if suffix == ".csv":
        return read_csv(Path(source.url), raw, typed=typed)
    lines = [line for line in raw.split("\n") if line.strip()]
    return [_json_row(line, source.place) for line in lines]


def _hub_rows(source: HubSource, base: Path) -> Rows:
    arguments = dict(source.arguments)
    name = arguments.pop("name", None)
    splits = load(
        Source(
            path=source.path,
            name=name,
            arguments=arguments,
            place=source.place,
            data_place=source.place,
            base=base,
        )
    )
    return [dict(row) for row in Table(_select_split(splits, source))]


def _select_split(splits: Mapping[str, Any], source: HubSource) -> Any:
    """Return a split, or a part of one such as ``test[:100]``."""
    if source.split in splits:
        return splits[source.split]
    import datasets

    lengths = {name: len(rows) for name, rows in splits.items()}
    try:
        parts = datasets.ReadInstruction.from_spec(source.split).to_absolute(lengths)
    except Exception as error:
        known = ", ".join(splits)
        what = f"split: {source.path!r} has no split {source.split!r}"
        problem = Problem(what, source.split_place, f"available splits: {known}")
        raise TaskFileError([problem]) from error
    selections = [
        splits[one.splitname].select(range(one.from_, one.to)) for one in parts
    ]
    return (
        selections[0]
        if len(selections) == 1
        else datasets.concatenate_datasets(selections)
    )


# Columns are ``sample_id`` (SHA-256 of the bytes), ``file_name`` and ``content``. YAML
# front matter between ``---`` lines adds columns and is not part of the content.
def read_folder(folder: Path, extension: str = "") -> list[dict[str, Any]]:
    """Return the rows of a folder and its subfolders. ``extension``: without a dot,
    in lower case; empty for all files except PDFs."""
    paths = [path for path in folder.rglob("*") if path.is_file()]
    selected = [
        path
        for path in paths
        if path.suffix.lower() != _SKIPPED
        and (not extension or path.suffix.lower() == f".{extension}")
    ]
    ordered = sorted(selected, key=lambda path: path.relative_to(folder).as_posix())
    return [_row(path) for path in ordered]


def _row(path: Path) -> dict[str, Any]:
    raw = path.read_bytes()
    columns, content = _split_front_matter(decode_text(raw, path).replace("\r\n", "\n"))
    own = {
        "sample_id": hashlib.sha256(raw).hexdigest(),
        "file_name": path.name,
        "content": content,
    }
    return {**columns, **own}


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


# A column is read as booleans, integers or floats if all of its cells are, and as
# strings otherwise. An empty cell is ``None``. The document id is always a string.
def read_csv(path: Path, text: str, *, typed: bool = True) -> list[dict[str, Any]]:
    """Return the rows of a file. ``typed``: whether columns are converted from
    strings."""
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
