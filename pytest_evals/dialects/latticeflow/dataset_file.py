"""Reads dataset files: the source and the filters of a dataset. No rows are loaded
here."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from pytest_evals.dialects.latticeflow.entities import Entity
from pytest_evals.dialects.latticeflow.fields import read_header
from pytest_evals.dialects.latticeflow.filters import SampleFilter, read_filter
from pytest_evals.dialects.yaml_reader.section import Section
from pytest_evals.errors import Place, Problem, TaskFileError

_TABLES = (".csv", ".jsonl")
_TRACES = ("langsmith", "phoenix", "claude_code", "inspect_ai")
_SOURCES = ("local", "folder", "url", "huggingface")


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSource:
    """A CSV or JSONL file."""

    path: Path
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderSource:
    """The text files of a folder, one row each; ``extension`` has no dot and is empty
    for all files."""

    path: Path
    extension: str
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class UrlSource:
    """A CSV or JSONL file at a URL."""

    url: str
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class HubSource:
    """A split of a dataset on the Hugging Face Hub."""

    path: str
    split: str
    arguments: Mapping[str, Any]
    place: Place
    split_place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratedSource:
    """Rows that a generator produces."""

    generator: str
    n: int
    config: Mapping[str, Any]
    section: Section
    place: Place


Source = LocalSource | FolderSource | UrlSource | HubSource | GeneratedSource


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetFile:
    """A dataset. A row must match all of its filters."""

    key: str
    source: Source
    filters: tuple[SampleFilter, ...] = ()
    place: Place
    warnings: tuple[str, ...] = ()


def read_dataset(entity: Entity) -> DatasetFile:
    """Return the dataset of a file."""
    problems: list[Problem] = []
    warnings: list[str] = []
    top = Section(entity.file, problems)
    header = read_header(top, "a dataset", ("key", "display_name"))
    source: Source | None = None
    filters: tuple[SampleFilter, ...] = ()
    given = [
        key
        for key in ("source", "generator_specification", "file_path")
        if top.values.get(key) is not None
    ]
    if len(given) != 1:
        what = (
            "a dataset needs exactly one of source, generator_specification "
            "and file_path"
        )
        listed = f", not {' and '.join(given)}" if given else ""
        fix = "source: {type: local, file_path: ./rows.jsonl}"
        top.problem(given[-1] if given else "key", what + listed, fix)
    if "generator_specification" in given:
        source = _generated(top)
    elif "source" in given:
        section = top.section("source")
        if section is not None:
            source, filters = _source(section)
    elif "file_path" in given:
        fix = "source: {type: local, file_path: …}"
        warnings.append(f"{top.place('file_path')}: file_path is deprecated; use {fix}")
        source = _local(top)
    for key in ("source", "generator_specification", "file_path"):
        top.raw(key)
    top.close("a dataset")
    if problems or source is None:
        raise TaskFileError(problems)
    return DatasetFile(
        key=header.key,
        source=source,
        filters=filters,
        place=entity.place,
        warnings=tuple(warnings),
    )


def _source(section: Section) -> tuple[Source | None, tuple[SampleFilter, ...]]:
    given = section.values.get("type")
    if given in _TRACES:
        what = (
            f"source type {given!r} imports from another service, which is "
            "not supported"
        )
        section.problem("type", what, "export the traces to JSONL and use type: local")
        return None, ()
    kind = section.one_of("type", "source type", _SOURCES, "")
    readers = {"local": _local, "folder": _folder, "url": _url, "huggingface": _hub}
    source = readers[kind](section) if kind else None
    filters = [read_filter(entry) for entry in section.entries("filters")]
    if kind:
        section.close(f"a source of type {kind}")
    return source, tuple(one for one in filters if one is not None)


def _local(section: Section) -> LocalSource | None:
    path = _path(section, "file_path")
    if path is None:
        return None
    place = section.place("file_path")
    if path.suffix.lower() not in _TABLES:
        what = f"file_path: {path.name!r} must end in .csv or .jsonl"
        section.problem("file_path", what, "file_path: ./rows.jsonl")
    return LocalSource(path=path, place=place)


def _path(section: Section, key: str) -> Path | None:
    """Return a path, resolved relative to the file that contains it."""
    text = section.name(key)
    if text is None:
        section.problem(key, f"{key} is missing", f"{key}: ./data")
        return None
    path = section.place(key).path.parent / os.path.expanduser(text)
    return Path(os.path.normpath(path))


def _folder(section: Section) -> FolderSource | None:
    path = _path(section, "directory_path")
    extension = section.text("extension")
    if path is None:
        return None
    place = section.place("directory_path")
    extension = extension.removeprefix(".").lower()
    return FolderSource(path=path, extension=extension, place=place)


def _url(section: Section) -> UrlSource | None:
    url = section.name("url")
    if url is None:
        section.problem("url", "url is missing", "url: https://example.org/rows.jsonl")
        return None
    path = PurePosixPath(urlsplit(url).path)
    if path.suffix.lower() not in _TABLES:
        what = f"url: the path of {url!r} does not end in .csv or .jsonl"
        section.problem("url", what)
    return UrlSource(url=url, place=section.place("url"))


def _hub(section: Section) -> HubSource | None:
    path, split = section.name("path"), section.name("split")
    arguments = section.take("load_dataset_kwargs", dict, {})
    for key, value, example in (("path", path, "org/name"), ("split", split, "test")):
        if value is None:
            section.problem(key, f"{key} is missing", f"{key}: {example}")
    if "split" in arguments:
        what = "load_dataset_kwargs must not contain split"
        section.problem("load_dataset_kwargs", what, f"split: {arguments['split']}")
    if path is None or split is None:
        return None
    return HubSource(
        path=path,
        split=split,
        arguments=arguments,
        place=section.place("path"),
        split_place=section.place("split"),
    )


def _generated(top: Section) -> GeneratedSource | None:
    section = top.section("generator_specification")
    if section is None:
        return None
    generator = section.name("dataset_generator_key")
    n = section.whole("num_samples", 1, 1)
    config = section.take("dataset_generator_config", dict, {})
    examples = {
        "dataset_generator_key": "my-generator",
        "num_samples": "10",
        "dataset_generator_config": "{}",
    }
    for key, example in examples.items():
        if section.values.get(key) is None:
            section.problem(key, f"{key} is missing", f"{key}: {example}")
    section.close("generator_specification")
    if generator is None:
        return None
    return GeneratedSource(
        generator=generator,
        n=n,
        config=config,
        section=section,
        place=section.place("dataset_generator_key"),
    )
