"""The source of a task's rows, and its paths, which are resolved relative to the task
file first."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from glob import iglob
from pathlib import Path
from typing import Any

from pytest_evals.data.data_files import file_names
from pytest_evals.errors import Place, Problem, TaskFileError, similar_file

FILE_BUILDERS = ("arrow", "csv", "json", "parquet", "text")
"""Builders of ``datasets`` that read local files."""


FORMATS = {
    ".json": "json",
    ".jsonl": "json",
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".txt": "text",
}
"""Suffix of a data file → the builder that reads it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Source of a task's rows."""

    path: str  # a dataset of the Hub, a folder, or a builder such as json
    name: str | None = None  # the dataset's configuration
    arguments: Mapping[str, Any]
    """Further arguments of ``datasets.load_dataset``, or of ``maker``."""
    maker: Callable[..., Any] | None = None
    """A user function that creates the dataset instead."""
    place: Place  # place of the path in the task file
    data_place: Place
    base: Path  # folder for relative paths, after the task file's own
    as_text: bool = False
    """Whether cells of CSV files are text, as they are written."""


def resolve(source: Source) -> Source:
    """Return the source with absolute local paths."""
    arguments = {k: v for k, v in source.arguments.items() if k != "trust_remote_code"}
    folders = (source.data_place.path.parent, source.base)
    if arguments.get("data_dir") is not None:
        folder = str(arguments["data_dir"])
        # Without a builder it may be a folder within the dataset.
        if source.path in FILE_BUILDERS or any(_exists(f / folder) for f in folders):
            arguments["data_dir"] = _find(folder, folders, source.data_place)
    elif source.path in FILE_BUILDERS and "data_files" in arguments:
        arguments["data_files"] = _find_all(
            arguments["data_files"], folders, source.data_place
        )
    return replace(source, path=_folder_or_id(source), arguments=arguments)


def _find_all(files: Any, folders: tuple[Path, ...], place: Place) -> Any:
    if isinstance(files, Mapping):
        return {key: _find_all(value, folders, place) for key, value in files.items()}
    if isinstance(files, list):
        return [_find(str(file), folders, place) for file in files]
    return _find(str(files), folders, place)


def _find(file: str, folders: tuple[Path, ...], place: Place) -> str:
    """Return the absolute form of a path or glob that exists in one of the folders."""
    if "://" in file:
        return file
    candidates = list(
        dict.fromkeys(folder / os.path.expanduser(file) for folder in folders)
    )
    for path in candidates:
        if _exists(path):
            return str(path)
    where = " or ".join(str(Place(Path(os.path.normpath(path)))) for path in candidates)
    where += next(filter(None, map(similar_file, candidates)), "")
    fix = "give a path relative to the task file"
    raise TaskFileError([Problem(f"data file not found: {where}", place, fix)])


def _exists(path: Path) -> bool:
    if os.path.exists(path):
        return True
    if not any(char in str(path) for char in "*?["):
        return False
    return next(iglob(str(path), recursive=True), None) is not None


def _folder_or_id(source: Source) -> str:
    """Return the path of a folder as absolute, and any other path unchanged.

    A plain name is a folder only if the folder contains data, so that a folder with the
    name of a Hub dataset does not hide that dataset.
    """
    if source.path in FILE_BUILDERS:
        return source.path
    folders = (source.place.path.parent, source.base)
    if source.path.startswith((".", "/", "~")):
        return _find(source.path, folders, source.place)
    for folder in folders:
        path = folder / source.path
        if os.path.isdir(path) and any(_holds_data(path)):
            return str(path)
    return source.path


def _holds_data(folder: Path) -> Iterator[bool]:
    for inside in (folder, folder / "data"):
        if os.path.isdir(inside):
            yield from (file.suffix in FORMATS for file in inside.iterdir())


def stamps(source: Source) -> tuple[tuple[str, int, int], ...]:
    """Return time and size of a source's files: changed files are read again."""
    texts = [source.path, *file_names(source.arguments.get("data_files"))]
    files = (Path(text) for text in texts if text.startswith("/") or text[1:2] == ":")
    stats = [(str(file), file.stat()) for file in files if os.path.isfile(file)]
    return tuple((name, stat.st_mtime_ns, stat.st_size) for name, stat in stats)
