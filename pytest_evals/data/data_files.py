"""Local data files: which there are, and what is wrong with one that cannot be read."""

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
"""What the readers of json, csv and text raise for an empty file."""
_NO_DATA = "corresponds to no data"
_ARCHIVES = (b"PK", b"(\xb5/\xfd", b'\x04"M\x18', b"7z\xbc\xaf", b"Rar!")
"""How archives begin that only the library opens; and Zstandard, and LZ4."""
UNREADABLE = (OSError, EOFError, lzma.LZMAError, zlib.error)
"""What :func:`opened` and its files raise."""


def named(files: Any) -> Iterator[str]:
    """All names in a value of ``data_files``: a text, a list, or either by split."""
    if isinstance(files, str):
        yield files
    elif isinstance(files, Mapping):
        for value in files.values():
            yield from named(value)
    elif isinstance(files, list):
        for value in files:
            yield from named(value)


def opened(path: Path) -> IO[bytes]:
    """The bytes of a file, or what is compressed in it.

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


def encoding_fault(files: Any) -> str | None:
    """``data.jsonl:3 is not UTF-8 (byte 0xe9)`` for the first of the files that is
    not; ``None`` if all are."""
    for path in local_files(files):
        try:
            with opened(path) as lines:
                fault = _not_utf8(lines)
        except UNREADABLE:
            continue
        if fault is not None:
            return f"{Place(path, fault[0])} is not UTF-8 (byte {fault[1]:#04x})"
    return None


def _not_utf8(lines: IO[bytes]) -> tuple[int, int] | None:
    """The first line that is not UTF-8, and its first byte that is not."""
    for number, line in enumerate(lines, start=1):
        try:
            line.decode()
        except UnicodeDecodeError as error:
            return number, line[error.start]
    return None


def row_fault(files: Any, error: BaseException) -> str | None:
    """``data.jsonl holds no rows`` if that is what an error of the reader is about."""
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
    verb = "holds" if len(paths) == 1 else "hold"
    return f"{', '.join(str(Place(path)) for path in paths)} {verb} no rows"


def local_files(files: Any) -> Iterator[Path]:
    """The files that are there of a value of ``data_files``, globs included."""
    for name in named(files):
        if os.path.isfile(name):
            yield Path(name)
        elif os.path.isabs(name) and any(char in name for char in "*?["):
            found = sorted(iglob(name, recursive=True))
            yield from (Path(path) for path in found if os.path.isfile(path))
