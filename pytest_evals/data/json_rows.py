"""Checks files of JSON rows before a library reads them.

pyarrow, which reads JSON for the ``datasets`` library, crashes with SIGSEGV if the
first row is ``null`` or values are nested 100,000 levels deep, and turns any later
``null`` into an empty row.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from pytest_evals.data.source_paths import UNREADABLE, open_data
from pytest_evals.errors import Place, abbreviated

DEEPEST = 100  # maximum nesting depth; pyarrow supports 64 levels
_SPACE = " \t\r\n"
_BOM = b"\xef\xbb\xbf"


class RowError(ValueError):
    """An invalid row."""

    def __init__(self, message: str, at: int) -> None:
        """Create the error; ``at`` is the position in the text."""
        super().__init__(message)
        self.at = at


class _Value(NamedTuple):
    value: Any
    start: int
    end: int


def are_likely_rows(path: Path) -> bool:
    """Return whether every line of a file looks like an object: many times faster than
    :func:`json_error`, for files of gigabytes."""
    try:
        with open_data(path) as file:
            return all(map(_looks_like_row, file))
    except UNREADABLE:
        return False


def json_error(path: Path, arguments: Mapping[str, Any]) -> str | None:
    """Return an error for the first row that is not an object, is nested too deeply, or
    is not JSON. ``path``: a file of JSON lines, or with one array of rows; may be
    compressed. ``arguments``: arguments of the library's builder; ``encoding``,
    ``encoding_errors`` and ``field`` are used. Returns ``data.jsonl:3: …``; ``None``
    without an error, or if the file cannot be read. Raises UnicodeDecodeError if the
    text is in another encoding."""
    encoding = str(arguments.get("encoding") or "utf-8")
    field = arguments.get("field")
    try:
        invalid = None
        if encoding.lower() in ("utf-8", "utf8") and field is None:
            invalid = _first_invalid_line(path)
            if invalid is None:
                return None
        with open_data(path) as file:
            raw = file.read().removeprefix(_BOM)
        text = raw.decode(encoding, str(arguments.get("encoding_errors") or "strict"))
        del raw
        error = _error_of(partial(_check, text, field))
    except (*UNREADABLE, LookupError):
        return None
    if error is None:
        return None
    line = text.count("\n", 0, error.at) + 1
    if (
        invalid is not None
        and invalid.among_rows
        and (fault := _error_of(partial(_check_objects, invalid.raw.decode().rstrip())))
    ):
        error, line = fault, invalid.number
    return f"{Place(path, line)}: {error}"


def json_row(line: str) -> dict[str, Any]:
    """Return the row of a line. Raises ValueError if it is not JSON, not an object, or
    nested too deeply."""
    row = _value(line, _skip_space(line, 0))
    _check_row(row, line)
    if line[row.end :].strip(_SPACE):
        raise _invalid("Extra data", line, row.end)
    value_: dict[str, Any] = row.value
    return value_


def _is_too_deep(value: Any) -> bool:
    """Return whether a value has more than :data:`DEEPEST` levels of nesting."""
    level, n = [value], 0
    while level:
        n += 1
        if n > DEEPEST:
            return True
        level = [
            inner
            for container in level
            if isinstance(container, list | dict)
            for inner in (
                container.values() if isinstance(container, dict) else container
            )
            if isinstance(inner, list | dict)
        ]
    return False


def guard_json_builder() -> None:
    """Check rows right before pyarrow reads them for the ``datasets`` library: those of
    folders, of the Hub, and of archives, which are not checked elsewhere."""
    from datasets.packaged_modules.json import json as builder

    if not isinstance(builder.paj, _CheckedReader):
        builder.paj = _CheckedReader(builder.paj)


class _CheckedReader:
    """Replaces ``pyarrow.json`` in the builder."""

    def __init__(self, reader: Any) -> None:
        self._reader = reader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)

    def read_json(self, source: Any, *arguments: Any, **named: Any) -> Any:
        """Return the table of some lines. Raises ValueError if a line is not an object,
        or is nested too deeply."""
        raw = source.getvalue().removeprefix(_BOM)
        if not all(map(_is_row, raw.splitlines())):
            _check(raw.decode("utf-8", "replace"), None)
        return self._reader.read_json(source, *arguments, **named)


class _Line(NamedTuple):
    """A line that is not an object."""

    number: int
    raw: bytes
    among_rows: bool  # whether an adjacent line is an object


def _first_invalid_line(path: Path) -> _Line | None:
    """Return the first line that is neither an object nor empty."""
    with open_data(path) as file:
        first = file.readline().removeprefix(_BOM)
        for number, line in enumerate(chain([first], file), start=1):
            if not _is_row(line):
                next_line = file.readline()
                among = number > 1 or (bool(next_line.strip()) and _is_row(next_line))
                return _Line(number, line, among)
    return None


def _looks_like_row(line: bytes) -> bool:
    """Return whether a line is surely empty or an object that is not too deep."""
    line = line.strip()
    if not line.startswith(b"{") or not line.endswith(b"}"):
        return not line
    return line.count(b"[") + line.count(b"{") <= DEEPEST


def _is_row(line: bytes) -> bool:
    """Return whether a line is an object, or empty."""
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError:
        return not line.strip() or _is_lenient_row(line)
    many = line.count(b"[") + line.count(b"{") > DEEPEST
    return isinstance(row, dict) and not (many and _is_too_deep(row))


def _is_lenient_row(line: bytes) -> bool:
    """Return whether a line is an object that orjson rejects, such as ``NaN``."""
    try:
        json_row(line.decode())
    except ValueError:
        return False
    return True


def _error_of(check: Callable[[], None]) -> RowError | None:
    try:
        check()
    except RowError as error:
        return error
    return None


def _check(text: str, field: str | None) -> None:
    """Check each row with Python's reader, which reports positions."""
    start = _skip_space(text, 0)
    if field is not None:
        for outer in _values(text, start):
            _check_row(outer, text)
            for name, at in _members(text, outer.start):
                if name == field and text[at] == "[":
                    _check_array(text, at)
    elif text[start : start + 1] == "[":
        end = _skip_space(text, _check_array(text, start))
        if end < len(text):
            raise _invalid("Extra data", text, end)
    else:
        _check_objects(text)


def _check_objects(text: str) -> None:
    for row in _values(text, _skip_space(text, 0)):
        _check_row(row, text)


def _check_array(text: str, at: int) -> int:
    """Check an array of objects or of strings (the library puts strings into the column
    ``text``) and return the position after it."""
    first: _Value | None = None
    at = _skip_space(text, at + 1)
    while text[at : at + 1] != "]":
        row = _value(text, at)
        first = first or row
        if not (isinstance(first.value, str) and isinstance(row.value, str)):
            _check_row(first, text)
            _check_row(row, text)
        at = _next_entry(text, row.end, "]")
    return at + 1


def _check_row(row: _Value, text: str) -> None:
    if not isinstance(row.value, dict):
        shown = abbreviated(text[row.start : row.end], 40)
        raise RowError(f"each row must be a JSON object, not {shown}", row.start)
    n = text.count("[", row.start, row.end) + text.count("{", row.start, row.end)
    if n > DEEPEST and _is_too_deep(row.value):
        raise _too_deep(row.start)


def _values(text: str, at: int) -> Iterator[_Value]:
    while at < len(text):
        value_ = _value(text, at)
        yield value_
        at = _skip_space(text, value_.end)


def _members(text: str, at: int) -> Iterator[tuple[str, int]]:
    """Yield the keys of a valid object, with the positions of their values."""
    at = _skip_space(text, at + 1)
    while text[at : at + 1] != "}":
        name = _value(text, at)
        at = _skip_space(text, _skip_space(text, name.end) + 1)
        yield name.value, at
        at = _next_entry(text, _value(text, at).end, "}")


def _next_entry(text: str, at: int, end: str) -> int:
    """Return the position of the next entry after a comma, or of the end."""
    at = comma = _skip_space(text, at)
    if text[at : at + 1] == end:
        return at
    if text[at : at + 1] != ",":
        raise _invalid(f"Expecting ',' or {end!r}", text, at)
    at = _skip_space(text, at + 1)
    if text[at : at + 1] == end:
        raise _invalid("remove the comma after the last entry", text, comma)
    return at


def _skip_space(text: str, at: int) -> int:
    while text[at : at + 1] and text[at] in _SPACE:
        at += 1
    return at


def _value(text: str, at: int) -> _Value:
    try:
        value, end = _DECODER.raw_decode(text, at)
    except RecursionError:
        raise _too_deep(at) from None
    except json.JSONDecodeError as error:
        raise _invalid(error.msg, text, error.pos) from None
    except ValueError:
        most = sys.get_int_max_str_digits()
        message = f"invalid JSON: an integer of more than {most:,} digits"
        raise RowError(message, at) from None
    return _Value(value, at, end)


def _invalid(message: str, text: str, at: int) -> RowError:
    column = at - text.rfind("\n", 0, at)
    rest = text[at : at + 5] or "\n"
    hints = (fix for found, fix in _FIXES.items() if rest.startswith(found))
    return RowError(f"invalid JSON: {message} (column {column}){next(hints, '')}", at)


_FIXES = {
    "'": "; write texts in double quotes",
    ",": "; remove the comma",
    "//": "; JSON has no comments",
    "#": "; JSON has no comments",
    "\n": "; close the object with } on its line",
    "None": "; write null",
    "True": "; write true",
    "False": "; write false",
}
"""What other formats have in the place of a value → what JSON has."""


def _too_deep(at: int) -> RowError:
    return RowError(f"values are nested more than {DEEPEST} levels deep", at)


_DECODER = json.JSONDecoder()
