"""Local data files: expands names and explains why a file cannot be read."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import zlib
from collections.abc import Iterator, Mapping
from glob import iglob
from pathlib import Path
from typing import IO, Any, cast

from pytest_evals.errors import Place

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
    """Open a file, decompressed if necessary.

    Raises:
        OSError: It cannot be read, or is an archive.
    """
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
