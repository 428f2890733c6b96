"""The source of a task's rows, its paths, which are resolved relative to the task file
first, and its local files: names, lines of rows, and why one cannot be read."""

from __future__ import annotations

import bz2
import csv
import gzip
import lzma
import os
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from glob import iglob
from pathlib import Path
from typing import IO, Any, cast

from pytest_evals.errors import Place, Problem, TaskFileError, similar_file

_DELIMITERS = ";\t|"


class RowPlaces:
    """Places of the rows of a file; its lines are read at the first access."""

    def __init__(self, path: Path, read: Callable[[], list[int]] | None = None) -> None:
        """``read`` returns the lines of a file that is not one of data."""
        self.path, self._read = path, read

    def __call__(self, number: int) -> Place:
        """Return the file and line of a row, counted from 0; only the file if its lines
        are not rows, as in a JSON list, or if it is compressed."""
        lines = self.lines
        return Place(self.path, lines[number] if number < len(lines) else 0)

    def with_path(self) -> tuple[Path, list[int]]:
        """Return the file and all lines."""
        return self.path, self.lines

    @cached_property
    def lines(self) -> list[int]:
        """The first line of each row; empty if lines are not rows."""
        if self._read is not None:
            return self._read()
        with suppress(OSError, UnicodeError, csv.Error):
            if self.path.suffix == ".jsonl":
                with self.path.open(encoding="utf-8-sig") as file:
                    return [n for n, line in enumerate(file, 1) if line.strip()]
            if self.path.suffix in (".csv", ".tsv"):
                with self.path.open(encoding="utf-8-sig", newline="") as file:
                    return [*_starts(csv.reader(file))][1:]
        return []


def _starts(reader: Any) -> Iterator[int]:
    """Yield the first line of each row of a CSV file, the header included."""
    end = 0
    for cells in reader:
        if cells:
            yield end + 1
        end = reader.line_num


def likely_delimiter(header: str) -> str:
    """Return what separates the names in the only column of a table; empty if it is one
    name."""
    return next((one for one in _DELIMITERS if one in header), "")


_NO_ROWS = ("StopIteration", "EmptyDataError", "SchemaInferenceError")
"""Exceptions of the readers of json, csv and text for an empty file."""
_NO_DATA = "corresponds to no data"
_ARCHIVES = (b"PK", b"(\xb5/\xfd", b'\x04"M\x18', b"7z\xbc\xaf", b"Rar!")
"""Signatures of archives that only the ``datasets`` library opens, including Zstandard
and LZ4."""
UNREADABLE = (OSError, EOFError, lzma.LZMAError, zlib.error)
"""Exceptions of :func:`open_data` and its files."""


def file_names(files: Any) -> Iterator[str]:
    """Yield all names in ``data_files``: a string, a list, or either by split."""
    if isinstance(files, str):
        yield files
    elif isinstance(files, Mapping):
        for value in files.values():
            yield from file_names(value)
    elif isinstance(files, list):
        for value in files:
            yield from file_names(value)


def open_data(path: Path) -> IO[bytes]:
    """Open a file, decompressed if necessary. Raises OSError if it cannot be read, or
    is an archive."""
    with path.open("rb") as file:
        start = file.read(512)
    if start.startswith(_ARCHIVES) or start[257:262] == b"ustar":
        raise OSError(f"{path} is an archive")
    if start.startswith(b"\x1f\x8b"):
        return cast("IO[bytes]", gzip.open(path))
    if start.startswith(b"BZh"):
        return bz2.open(path)
    return lzma.open(path) if start.startswith(b"\xfd7zXZ") else path.open("rb")


def encoding_error(files: Any) -> tuple[Place, int] | None:
    """Return the first line that is not UTF-8 and its first invalid byte, or
    ``None``."""
    for path in local_files(files):
        line = 0
        try:
            with open_data(path) as file:
                for raw in file:
                    line += 1
                    raw.decode()
        except UnicodeDecodeError as error:
            return Place(path, line), error.object[error.start]
        except UNREADABLE:
            continue
    return None


def empty_file_error(files: Any, error: BaseException) -> str | None:
    """Return ``data.jsonl has no rows`` if that explains the error, or ``None``."""
    by_split = files if isinstance(files, Mapping) else {"": files}
    if _NO_DATA in str(error):
        quoted = [part for name, part in by_split.items() if f'"{name}"' in str(error)]
        paths = list(local_files(quoted or files))
    elif type(error).__name__ in _NO_ROWS:
        paths = [path for path in local_files(files) if path.stat().st_size == 0]
    else:
        return None
    if not paths:
        return None
    verb = "has" if len(paths) == 1 else "have"
    return f"{', '.join(str(Place(path)) for path in paths)} {verb} no rows"


def local_files(files: Any) -> Iterator[Path]:
    """Yield the existing files of ``data_files``, with glob patterns expanded."""
    for name in file_names(files):
        if os.path.isfile(name):
            yield Path(name)
        elif os.path.isabs(name) and any(char in name for char in "*?["):
            matches = sorted(iglob(name, recursive=True))
            yield from (Path(path) for path in matches if os.path.isfile(path))


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
    as_text: bool = False  # whether cells of CSV files are text, as they are written


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
    """Return the path of a folder as absolute, and any other path unchanged. A plain
    name is a folder only if the folder contains data, so that a folder with the name of
    a Hub dataset does not hide that dataset."""
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
