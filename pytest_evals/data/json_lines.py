"""Files of JSON lines that mean the same to every reader.

Importing the ``datasets`` library takes longer than most local suites take to be
collected. It gives rows types, column by column: numbers become floats where some are,
texts become times where all look like it, missing keys become ``None``. Where every
row has the same keys and every column one plain type, none of that can happen, and
the rows are what Python's own reader gives. All else is left to the library.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

LARGEST = 8 * 2**20
"""Bytes of a file; the library reads larger ones in pieces, and keeps them on disk."""
_INT64 = 2**63
_TIME = re.compile(r"\s*[+-]?\d{4}-?\d\d")
"""How texts begin that may be taken for times."""
_ESCAPED = re.compile(rb"\\u(?:[dD][89a-fA-F]|0000)")
"""Halves of characters and the null character: readers differ in what they make of
them."""
_RECORDED = frozenset({"messages", "payload"})
"""Columns by which the library knows logs of agents, which it turns into something
else."""

Rows = list[dict[str, Any]]


def read_json_lines(files: Mapping[str, Sequence[Path]]) -> dict[str, Rows] | None:
    """Rows by split; ``None`` where the library may see something else in them.

    Args:
        files: Split → its files, in order.
    """
    known: dict[str, str] = {}
    splits: dict[str, Rows] = {}
    try:
        for split, paths in files.items():
            kinds = [_read(path, splits.setdefault(split, [])) for path in paths]
            for one in kinds:
                _agree(known, one)
    except (_NotPlainError, OSError, TypeError, ValueError, RecursionError):
        return None
    return splits


class _NotPlainError(Exception):
    """Something that readers may see differently."""


def _read(path: Path, rows: Rows) -> dict[str, str]:
    """Add the rows of a file; gives the kinds of its columns.

    Raises:
        _NotPlainError: It is not as plain.
        ValueError: It is no JSON, or not in UTF-8.
        TypeError: A line is no mapping.
    """
    if path.suffix not in (".json", ".jsonl") or path.stat().st_size > LARGEST:
        raise _NotPlainError
    data = path.read_bytes()
    if not data.startswith(b"{") or _ESCAPED.search(data):
        raise _NotPlainError
    lines = data.decode("utf-8").removesuffix("\n").split("\n")
    found = [_DECODER.decode(line) for line in lines]
    columns = list(found[0])
    if any(list(row) != columns for row in found) or _RECORDED & set(columns):
        raise _NotPlainError
    rows += found
    return {name: _column_kind([row[name] for row in found]) for name in columns}


def _agree(known: dict[str, str], found: dict[str, str]) -> None:
    """Every file has to have the same columns of the same kinds."""
    if not known:
        known.update(found)
    if list(known.items()) != list(found.items()):
        raise _NotPlainError


def _column_kind(values: Sequence[Any]) -> str:
    kinds = set(map(_kind, values)) - {""}
    if len(kinds) != 1:
        # Nothing but None has a type of its own, and so have lists without items.
        raise _NotPlainError
    return kinds.pop()


def _kind(value: Any) -> str:
    """The kind of a value; empty for ``None``, which goes with all."""
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
        return "text"
    if isinstance(value, bool):
        return "truth"
    if isinstance(value, int) and -_INT64 <= value < _INT64:
        return "whole number"
    if isinstance(value, float) and math.isfinite(value):
        return "number"
    raise _NotPlainError


def _row(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) != len(pairs):
        raise _NotPlainError
    return row


def _refused(text: str) -> NoReturn:
    raise _NotPlainError


_DECODER = json.JSONDecoder(object_pairs_hook=_row, parse_constant=_refused)
