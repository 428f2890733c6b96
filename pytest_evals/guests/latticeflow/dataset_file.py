"""Reads dataset files: where the rows come from, and the filters. ``_SOURCES`` has all
types of sources; each returns a function that loads the rows of files, folders, URLs or
the Hugging Face Hub, so that no row is loaded when the file is read.
"""

from __future__ import annotations

import csv
import hashlib
import io
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import yaml

from pytest_evals.data.hub import datasets_library, reading_datasets
from pytest_evals.data.json_rows import json_row
from pytest_evals.data.rows import Table
from pytest_evals.data.sources import Source, load
from pytest_evals.data.user_files import decode_text, read_text
from pytest_evals.data.yaml_loader import BoundedLoader
from pytest_evals.dialects.yaml_reader.section import Section
from pytest_evals.errors import DocumentError, Place, Problem, TaskFileError
from pytest_evals.guests.latticeflow.entities import Entity
from pytest_evals.guests.latticeflow.fields import (
    need,
    read_header,
    read_typed,
    required_name,
)
from pytest_evals.guests.latticeflow.filters import (
    SampleFilter,
    matching_rows,
    read_filter,
)

ID = "sample_id"
"""The id column; ids are generated if it is missing."""
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
        what = f"file_path: file not found: {str(Place(path))!r}{there}"
        fix = f"give a path relative to {place.path.name}"
        raise TaskFileError([Problem(what, place, fix)])
    stat = path.stat()
    return [*_table(path.resolve(), (stat.st_mtime_ns, stat.st_size), typed)]


@lru_cache(maxsize=64)
def _table(path: Path, _stamp: tuple[int, int], typed: bool) -> Rows:
    return _rows(path, read_text(path), None, typed=typed)


def _rows(path: Path, text: str, place: Place | None, *, typed: bool) -> Rows:
    """Return the rows of a text; errors of JSON are at ``place``, or at the line."""
    if path.suffix.lower() == ".csv":
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
        what = f"url: {url!r} cannot be fetched: {type(error).__name__}: {error}"
        raise TaskFileError([Problem(what, place, unreachable=True)]) from error
    is_csv = url.partition("?")[0].lower().endswith(".csv")
    if is_csv:
        return read_csv(Path(url), text, typed=typed)
    return _rows(Path("rows.jsonl"), text, place, typed=typed)


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
        what = f"split: {path!r} has no split {split!r}"
        problem = Problem(what, at, f"available splits: {', '.join(splits)}")
        raise TaskFileError([problem]) from error
    found = [splits[one.splitname].select(range(one.from_, one.to)) for one in parts]
    return found[0] if len(found) == 1 else datasets.concatenate_datasets(found)


def folder_rows(path: Path, extension: str, place: Place) -> Rows:
    """Return the rows of a folder; ``place`` is that of its name."""
    if not os.path.isdir(path):
        what = f"directory_path: folder not found: {str(Place(path))!r}"
        fix = f"give a path relative to {place.path.name}"
        raise TaskFileError([Problem(what, place, fix)])
    return read_folder(path, extension)


def read_folder(folder: Path, extension: str = "") -> Rows:
    """Return a row for each text file of a folder and its subfolders. ``extension``:
    without a dot, in lower case; empty for all files except PDFs.

    Columns are ``sample_id`` (SHA-256 of the bytes), ``file_name`` and ``content``.
    YAML front matter between ``---`` lines adds columns and is not part of the content.
    """
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
    own = {ID: hashlib.sha256(raw).hexdigest(), "file_name": path.name}
    return {**columns, **own, "content": content}


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
            is_named = bool(name.strip())
            what = f"duplicate column {name!r}" if is_named else "a column has no name"
            raise TaskFileError([Problem(what, Place(path, 1))])


def _column(name: str, cells: Sequence[str], *, typed: bool) -> Sequence[Any]:
    if not typed:
        return cells
    convert = str if name == ID else _conversion([x for x in cells if x != ""])
    return [None if cell == "" else convert(cell) for cell in cells]


def _conversion(cells: Sequence[str]) -> Callable[[str], Any]:
    if all(cell.lower() in ("true", "false") for cell in cells):
        return lambda cell: cell.lower() == "true"
    if all(_INTEGER.fullmatch(cell) for cell in cells):
        return int
    if all(_NUMBER.fullmatch(cell) for cell in cells):
        return float
    return str


_TABLES = (".csv", ".jsonl")
_TRACES = ("langsmith", "phoenix", "claude_code", "inspect_ai")
_ORIGINS = ("source", "generator_specification", "file_path")
_BOTH = "source, generator_specification and file_path"


class GeneratedSource(NamedTuple):
    """Rows that a generator produces."""

    generator: str
    n: int
    config: Mapping[str, Any]  # values of the generator's parameters
    section: Section
    place: Place


class Loading(NamedTuple):
    """What loading needs besides the file."""

    generate: Callable[[GeneratedSource], Rows]
    base: Path  # folder to which paths of huggingface sources are relative
    typed: bool = True  # whether cells of CSV files are converted from strings


Load = Callable[[Loading], Rows]


@dataclass(frozen=True, slots=True)
class DatasetFile:
    """A dataset. A row must match all of its filters."""

    key: str
    load: Load
    filters: tuple[SampleFilter, ...]
    place: Place

    def rows(self, loading: Loading) -> Rows:
        """Return the rows. Each has a ``sample_id``: its own, or its position before
        filtering, as text. Raises ``TaskFileError``, also if all are filtered out."""
        rows = self.load(loading)
        numbered = [
            row if row.get(ID) is not None else {**row, ID: str(number)}
            for number, row in enumerate(rows)
        ]
        try:
            found = matching_rows(numbered, self.filters)
        except DocumentError as error:
            what = f"a filter of {self.key!r} fails: {error}"
            raise TaskFileError([Problem(what, self.place)]) from error
        if not found:
            what = f"the dataset {self.key!r} has no rows"
            after = " that match its filters" if rows else ""
            raise TaskFileError([Problem(what + after, self.place)])
        return found


def read_dataset(entity: Entity) -> DatasetFile:
    """Return the dataset of a file."""
    problems: list[Problem] = []
    top = Section(entity.file, problems)
    header = read_header(top, "a dataset", ("key", "display_name"))
    load: Load | None = None
    filters: list[SampleFilter | None] = []
    given = [key for key in _ORIGINS if top.raw(key) is not None]
    if len(given) != 1:
        listed = f", not {' and '.join(given)}" if given else ""
        what = f"a dataset needs exactly one of {_BOTH}{listed}"
        fix = "source: {type: local, file_path: ./rows.jsonl}"
        top.problem(given[-1] if given else "key", what, fix)
    if "generator_specification" in given:
        load = _generated(top)
    elif "source" in given:
        section = top.section("source")
        if section is not None:
            filters = [read_filter(entry) for entry in section.entries("filters")]
            load = _source(section)
    elif "file_path" in given:  # deprecated
        load = _local(top)
    top.close("a dataset")
    if problems or load is None:
        raise TaskFileError(problems)
    kept = tuple(one for one in filters if one is not None)
    return DatasetFile(header.key, load, kept, entity.place)


def _source(section: Section) -> Load | None:
    kind = section.values.get("type")
    if kind in _TRACES:
        what = f"source type {kind!r} imports from another service, which is "
        fix = "export the traces to JSONL and use type: local"
        section.problem("type", f"{what}not supported", fix)
        return None
    return read_typed(section, "source type", "a source", _SOURCES)


def _local(section: Section) -> Load | None:
    path, place = _path(section, "file_path"), section.place("file_path")
    if path is None:
        return None
    if path.suffix.lower() not in _TABLES:
        what = f"file_path: {path.name!r} must end in .csv or .jsonl"
        section.problem("file_path", what, "file_path: ./rows.jsonl")
    return lambda loading: table_rows(path, place, typed=loading.typed)


def _path(section: Section, key: str) -> Path | None:
    text = required_name(section, key, "./data")
    if not text:
        return None
    path = section.place(key).path.parent / os.path.expanduser(text)
    return Path(os.path.normpath(path))


def _folder(section: Section) -> Load | None:
    path, place = _path(section, "directory_path"), section.place("directory_path")
    extension = section.text("extension").removeprefix(".").lower()
    if path is None:
        return None
    return lambda _loading: folder_rows(path, extension, place)


def _url(section: Section) -> Load | None:
    url = required_name(section, "url", "https://example.org/rows.jsonl")
    place = section.place("url")
    if not url:
        return None
    if PurePosixPath(urlsplit(url).path).suffix.lower() not in _TABLES:
        what = f"url: the path of {url!r} does not end in .csv or .jsonl"
        section.problem("url", what)
    return lambda loading: download(url, place, typed=loading.typed)


def _hub(section: Section) -> Load | None:
    path = required_name(section, "path", "org/name")
    split = required_name(section, "split", "test")
    arguments = section.take("load_dataset_kwargs", dict, {})
    if "split" in arguments:
        what = "load_dataset_kwargs must not contain split"
        section.problem("load_dataset_kwargs", what, f"split: {arguments['split']}")
    if not path or not split:
        return None
    places = section.place("path"), section.place("split")
    load = partial(hub_rows, path, split, arguments, places)
    return lambda loading: load(loading.base)


def _generated(top: Section) -> Load | None:
    section = top.section("generator_specification")
    if section is None:
        return None
    need(section, "dataset_generator_key", "my-generator")
    generator = section.name("dataset_generator_key")
    need(section, "num_samples", "10")
    n = section.whole("num_samples", 1, 1)
    need(section, "dataset_generator_config", "{}")
    config = section.take("dataset_generator_config", dict, {})
    section.close("generator_specification")
    if generator is None:
        return None
    place = section.place("dataset_generator_key")
    source = GeneratedSource(generator, n, config, section, place)
    return lambda loading: loading.generate(source)


_SOURCES: Mapping[str, Callable[[Section], Load | None]] = {
    "local": _local,
    "folder": _folder,
    "url": _url,
    "huggingface": _hub,
}
