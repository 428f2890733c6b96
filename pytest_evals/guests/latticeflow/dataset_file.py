"""Reads dataset files: where the rows come from, and the filters. ``_SOURCES`` has all
types of sources; each returns a function that loads the rows, so that no row is loaded
when the file is read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from pytest_evals.errors import DocumentError, Place, Problem, TaskFileError
from pytest_evals.guests.latticeflow import tables
from pytest_evals.guests.latticeflow.entities import Entity
from pytest_evals.guests.latticeflow.fields import Keys
from pytest_evals.guests.latticeflow.filters import (
    SampleFilter,
    matching_rows,
    read_filter,
)
from pytest_evals.guests.latticeflow.tables import ID, Rows

_TABLES = (".csv", ".jsonl")
_TRACES = ("langsmith", "phoenix", "claude_code", "inspect_ai")
_ORIGINS = ("source", "generator_specification", "file_path")
_LOCAL = "{type: local, file_path: ./rows.jsonl}"
_BOTH = "source, generator_specification and file_path"


class GeneratedSource(NamedTuple):
    """Rows that a generator produces."""

    generator: str
    n: int
    config: Mapping[str, Any]  # values of the generator's parameters
    section: Keys
    place: Place


class Loading(NamedTuple):
    """What loading needs besides the file."""

    generate: Callable[[GeneratedSource], Rows]
    base: Path  # folder to which paths of huggingface sources are relative
    typed: bool = True  # whether cells of CSV files are converted from strings


Load = Callable[[Loading], Rows]


def dataset_rows(entity: Entity, loading: Loading) -> Rows:
    """Return the rows of a dataset's file that match all of its filters. Each has a
    ``sample_id``: its own, or its position before filtering, as text. Raises
    ``TaskFileError``, also if all are filtered out."""
    load, filters = _read(entity)
    rows = load(loading)
    numbered = [
        row if row.get(ID) is not None else {**row, ID: str(number)}
        for number, row in enumerate(rows)
    ]
    try:
        found = matching_rows(numbered, filters)
    except DocumentError as error:
        message = f"a filter of {entity.key!r} fails: {error}"
        raise TaskFileError([Problem(message, entity.place)]) from error
    if not found:
        message = f"the dataset {entity.key!r} has no rows"
        after = " that match its filters" if rows else ""
        raise TaskFileError([Problem(message + after, entity.place)])
    return found


def _read(entity: Entity) -> tuple[Load, Sequence[SampleFilter]]:
    top = Keys(entity.file, [])
    top.header("a dataset", ("key", "display_name"))
    load: Load | None = None
    filters: list[SampleFilter] = []
    given = [key for key in _ORIGINS if top.raw(key) is not None]
    if len(given) != 1:
        listed = f", not {' and '.join(given)}" if given else ""
        message = f"a dataset needs exactly one of {_BOTH}{listed}"
        top.problem(given[-1] if given else "key", message, f"source: {_LOCAL}")
    if "generator_specification" in given:
        load = _generated(top)
    elif "source" in given:
        section = top.required_section("source", _LOCAL)
        filters = [read_filter(entry) for entry in section.entries("filters")]
        kind = section.values.get("type")
        if kind in _TRACES:
            message = f"source type {kind!r} imports from another service, which is "
            fix = "export the traces to JSONL and use type: local"
            section.problem("type", f"{message}not supported", fix)
        else:
            load = section.typed("source type", "a source", _SOURCES)
    elif "file_path" in given:  # deprecated
        load = _local(top)
    top.finish("a dataset")
    assert load is not None, "a source without problems has one"
    return load, filters


def _local(section: Keys) -> Load:
    path, place = _path(section, "file_path"), section.place("file_path")
    if path.name and path.suffix.lower() not in _TABLES:
        message = f"file_path: {path.name!r} must end in .csv or .jsonl"
        section.problem("file_path", message, "file_path: ./rows.jsonl")
    return lambda loading: tables.table_rows(path, place, typed=loading.typed)


def _path(section: Keys, key: str) -> Path:
    text = section.required_name(key, "./data")
    if not text:
        return Path()
    path = section.place(key).path.parent / os.path.expanduser(text)
    return Path(os.path.normpath(path))


def _folder(section: Keys) -> Load:
    path, place = _path(section, "directory_path"), section.place("directory_path")
    extension = section.text("extension").removeprefix(".").lower()
    return lambda _loading: tables.folder_rows(path, extension, place)


def _url(section: Keys) -> Load:
    url = section.required_name("url", "https://example.org/rows.jsonl")
    place = section.place("url")
    if url and PurePosixPath(urlsplit(url).path).suffix.lower() not in _TABLES:
        message = f"url: the path of {url!r} does not end in .csv or .jsonl"
        section.problem("url", message)
    return lambda loading: tables.download(url, place, typed=loading.typed)


def _hub(section: Keys) -> Load:
    path = section.required_name("path", "org/name")
    split = section.required_name("split", "test")
    arguments = section.take("load_dataset_kwargs", dict, {})
    if "split" in arguments:
        message = "load_dataset_kwargs must not contain split"
        section.problem("load_dataset_kwargs", message, f"split: {arguments['split']}")
    places = section.place("path"), section.place("split")
    load = partial(tables.hub_rows, path, split, arguments, places)
    return lambda loading: load(loading.base)


def _generated(top: Keys) -> Load:
    fix = "{dataset_generator_key: my-generator, …}"
    section = top.required_section("generator_specification", fix)
    generator = section.required_name("dataset_generator_key", "my-generator")
    section.need("num_samples", "10")
    n = section.whole("num_samples", 1, 1)
    section.need("dataset_generator_config", "{}")
    config = section.take("dataset_generator_config", dict, {})
    section.close("generator_specification")
    place = section.place("dataset_generator_key")
    source = GeneratedSource(generator, n, config, section, place)
    return lambda loading: loading.generate(source)


_SOURCES: Mapping[str, Callable[[Keys], Load]] = {
    "local": _local,
    "folder": _folder,
    "url": _url,
    "huggingface": _hub,
}
