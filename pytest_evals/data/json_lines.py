"""Fast reader of JSON lines that every reader interprets alike.

Importing the ``datasets`` library takes longer than collecting most local suites. The
library infers column types: integers become floats if the column has floats, strings
become timestamps if all look like one, missing keys become ``None``. If every row has
the same keys and every column a single plain type, none of that applies, and Python's
JSON reader gives the same rows. Everything else is left to the library.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

LARGEST = 8 * 2**20
"""Maximum bytes of a file; the library reads larger ones in pieces and keeps them on
disk."""
_INT64 = 2**63
_TIME = re.compile(r"\s*[+-]?\d{4}-?\d\d")
"""Start of strings that may be read as timestamps."""
_ESCAPED = re.compile(rb"\\u(?:[dD][89a-fA-F]|0000)")
"""Surrogates and the null character, which readers treat differently."""
_RECORDED = frozenset({"messages", "payload"})
"""Columns of agent logs, which the library converts."""

Rows = list[dict[str, Any]]


def read_json_lines(files: Mapping[str, Sequence[Path]]) -> dict[str, Rows] | None:
    """Return rows by split; ``None`` if the library may read them differently.
    ``files``: split → its files, in order."""
    known: dict[str, str] = {}
    splits: dict[str, Rows] = {}
    try:
        for split, paths in files.items():
            kinds = [_read(path, splits.setdefault(split, [])) for path in paths]
            for one in kinds:
                _check_same_columns(known, one)
    except (_NotPlainError, OSError, TypeError, ValueError, RecursionError):
        return None
    return splits


class _NotPlainError(Exception):
    """Readers may interpret the data differently."""


def _read(path: Path, rows: Rows) -> dict[str, str]:
    """Add the rows of a file and return the types of its columns.

    Raises:
        _NotPlainError: The library may read it differently.
        ValueError: It is not JSON, or not UTF-8.
        TypeError: A line is not an object.
    """
    if path.suffix not in (".json", ".jsonl") or path.stat().st_size > LARGEST:
        raise _NotPlainError
    data = path.read_bytes()
    if not data.startswith(b"{") or _ESCAPED.search(data):
        raise _NotPlainError
    lines = data.decode("utf-8").removesuffix("\n").split("\n")
    rows_ = [_DECODER.decode(line) for line in lines]
    columns = list(rows_[0])
    if any(list(row) != columns for row in rows_) or _RECORDED & set(columns):
        raise _NotPlainError
    rows += rows_
    return {name: _column_kind([row[name] for row in rows_]) for name in columns}


def _check_same_columns(known: dict[str, str], columns: dict[str, str]) -> None:
    """Check that every file has the same columns with the same types."""
    if not known:
        known.update(columns)
    if list(known.items()) != list(columns.items()):
        raise _NotPlainError


def _column_kind(values: Sequence[Any]) -> str:
    kinds = set(map(_kind, values)) - {""}
    if len(kinds) != 1:
        # Columns of None only, or of empty lists only, have a special type.
        raise _NotPlainError
    return kinds.pop()


def _kind(value: Any) -> str:
    """Return the type of a value; empty for ``None``, which is compatible with all."""
    if value is None:
        return ""
    if isinstance(value, list):
        inner = {_plain_kind(item) for item in value}
        if len(inner) > 1:
            raise _NotPlainError
        return f"list of {inner.pop()}" if inner else ""
    return _plain_kind(value)


def _plain_kind(value: Any) -> str:
    if isinstance(value, str):
        if _TIME.match(value):
            raise _NotPlainError
        return "string"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int) and -_INT64 <= value < _INT64:
        return "integer"
    if isinstance(value, float) and math.isfinite(value):
        return "number"
    raise _NotPlainError


def _row(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) != len(pairs):
        raise _NotPlainError
    return row


def _refuse_constant(text: str) -> NoReturn:
    raise _NotPlainError


_DECODER = json.JSONDecoder(object_pairs_hook=_row, parse_constant=_refuse_constant)
