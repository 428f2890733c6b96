"""Loads the rows of a dataset from its source, assigns ids and applies filters."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from pytest_evals.data.hub import reading_datasets
from pytest_evals.data.json_rows import json_row
from pytest_evals.data.rows import Table
from pytest_evals.data.sources import Source, load
from pytest_evals.data.user_files import read_text
from pytest_evals.dialects.latticeflow.dataset_file import (
    DatasetFile,
    FolderSource,
    GeneratedSource,
    HubSource,
    LocalSource,
    UrlSource,
)
from pytest_evals.dialects.latticeflow.filters import matching_rows
from pytest_evals.dialects.latticeflow.prompts.csv_files import read_csv
from pytest_evals.dialects.latticeflow.prompts.text_files import read_folder
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

    Raises:
        TaskFileError: It cannot be read, or a filter fails.
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
