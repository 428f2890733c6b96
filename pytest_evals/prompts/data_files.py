"""Data files that cannot be read: which of them it is, and what is wrong with it.

Only local files are looked at, and only after reading them has failed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_evals.errors import Place

__all__ = ["encoding_fault", "named", "row_fault"]

_NO_ROWS = ("StopIteration", "EmptyDataError", "SchemaInferenceError")
"""What the readers of json, csv and text raise for an empty file."""
_NO_DATA = "corresponds to no data"


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


def encoding_fault(files: Any) -> str | None:
    """``data.jsonl:3 is not UTF-8 (byte 0xe9)`` for the first of the files that is
    not; ``None`` if all are."""
    for path in _local(files):
        with path.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                try:
                    line.decode()
                except UnicodeDecodeError as error:
                    byte = line[error.start]
                    return f"{Place(path, number)} is not UTF-8 (byte {byte:#04x})"
    return None


def row_fault(files: Any, error: BaseException) -> str | None:
    """``data.jsonl holds no rows`` if that is what an error of the reader is about."""
    by_split = files if isinstance(files, Mapping) else {"": files}
    if _NO_DATA in str(error):
        quoted = [part for name, part in by_split.items() if f'"{name}"' in str(error)]
        paths = list(_local(quoted or files))
    elif type(error).__name__ in _NO_ROWS:
        paths = [path for path in _local(files) if path.stat().st_size == 0]
    else:
        return None
    if not paths:
        return None
    verb = "holds" if len(paths) == 1 else "hold"
    return f"{', '.join(str(Place(path)) for path in paths)} {verb} no rows"


def _local(files: Any) -> Iterator[Path]:
    for name in named(files):
        path = Path(name)
        if os.path.isfile(path):
            yield path
        elif path.is_absolute() and any(char in name for char in "*?["):
            pattern = str(path.relative_to(path.anchor))
            found = sorted(Path(path.anchor).glob(pattern))
            yield from (path for path in found if os.path.isfile(path))
