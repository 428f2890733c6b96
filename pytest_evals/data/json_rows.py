"""Files of JSON rows, checked before any library reads them.

pyarrow, which reads JSON for the ``datasets`` library, ends the process with SIGSEGV on
a first row ``null`` and on values that are nested 100,000 levels deep, and makes an
empty row of any later ``null``.
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

from pytest_evals.data.data_files import UNREADABLE, opened
from pytest_evals.errors import Place

DEEPEST = 100
"""Levels of values within values; pyarrow can pass on no more than 64."""
_SPACE = " \t\r\n"
_BOM = b"\xef\xbb\xbf"


class RowError(ValueError):
    """A row that cannot be used."""

    def __init__(self, what: str, at: int) -> None:
        """``at`` is the character of the text."""
        super().__init__(what)
        self.at = at


class _Value(NamedTuple):
    """A value of a text, from its first character to the one behind it."""

    value: Any
    start: int
    end: int


def are_likely_rows(path: Path) -> bool:
    """Whether a file has an object on each line, by the looks of the lines: many times
    faster than :func:`json_fault`, for files of gigabytes."""
    try:
        with opened(path) as file:
            return all(map(_looks_like_row, file))
    except UNREADABLE:
        return False


def json_fault(path: Path, arguments: Mapping[str, Any]) -> str | None:
    """The first row that is not an object, is nested too deeply, or is not JSON.

    Args:
        path: A file of JSON lines, or with one array of rows; also compressed.
        arguments: Those of the library's builder: ``encoding``, ``encoding_errors`` and
            ``field`` count.

    Returns:
        ``data.jsonl:3: …``; ``None`` if there is none, or if the file cannot be read.

    Raises:
        UnicodeDecodeError: The text is in another encoding.
    """
    encoding = str(arguments.get("encoding") or "utf-8")
    field = arguments.get("field")
    try:
        odd = None
        if encoding.lower() in ("utf-8", "utf8") and field is None:
            odd = _odd_line(path)
            if odd is None:
                return None
        with opened(path) as file:
            raw = file.read().removeprefix(_BOM)
        text = raw.decode(encoding, str(arguments.get("encoding_errors") or "strict"))
        del raw
        fault = _fault(partial(_check, text, field))
    except (*UNREADABLE, LookupError):
        return None
    if fault is None:
        return None
    line = text.count("\n", 0, fault.at) + 1
    if (
        odd is not None
        and odd.among_rows
        and (own := _fault(partial(_check_objects, odd.raw.decode().rstrip())))
    ):
        fault, line = own, odd.number
    return f"{Place(path, line)}: {fault}"


def json_row(line: str) -> dict[str, Any]:
    """The row on a line.

    Raises:
        ValueError: It is not JSON, not an object, or nested too deeply.
    """
    row = _value(line, _skipped(line, 0))
    _check_row(row, line)
    if line[row.end :].strip(_SPACE):
        raise _invalid("Extra data", line, row.end)
    found: dict[str, Any] = row.value
    return found


def _is_too_deep(value: Any) -> bool:
    """Whether a value has more than :data:`DEEPEST` levels of lists and mappings."""
    level, n = [value], 0
    while level:
        n += 1
        if n > DEEPEST:
            return True
        level = [
            inner
            for held in level
            if isinstance(held, list | dict)
            for inner in (held.values() if isinstance(held, dict) else held)
            if isinstance(inner, list | dict)
        ]
    return False


def guard_json_builder() -> None:
    """Check rows right before pyarrow reads them for the ``datasets`` library: those of
    folders, of the Hub, and of archives, which nobody else has looked at."""
    from datasets.packaged_modules.json import json as builder

    if not isinstance(builder.paj, _Guard):
        builder.paj = _Guard(builder.paj)


class _Guard:
    """``pyarrow.json`` as the builder calls it."""

    def __init__(self, guarded: Any) -> None:
        self._guarded = guarded

    def __getattr__(self, name: str) -> Any:
        return getattr(self._guarded, name)

    def read_json(self, source: Any, *arguments: Any, **named: Any) -> Any:
        """The table of some lines.

        Raises:
            ValueError: One of them is no object, or is nested too deeply.
        """
        raw = source.getvalue().removeprefix(_BOM)
        if not all(map(_is_row, raw.splitlines())):
            _check(raw.decode("utf-8", "replace"), None)
        return self._guarded.read_json(source, *arguments, **named)


class _Line(NamedTuple):
    """A line that is not an object by itself."""

    number: int
    raw: bytes
    among_rows: bool
    """Whether the line before or behind it is."""


def _odd_line(path: Path) -> _Line | None:
    """The first line that is neither an object nor empty."""
    with opened(path) as file:
        first = file.readline().removeprefix(_BOM)
        for number, line in enumerate(chain([first], file), start=1):
            if not _is_row(line):
                behind = file.readline()
                among = number > 1 or (bool(behind.strip()) and _is_row(behind))
                return _Line(number, line, among)
    return None


def _looks_like_row(line: bytes) -> bool:
    """Whether a line can be no row but an object, nested as deeply as is allowed."""
    line = line.strip()
    if not line.startswith(b"{") or not line.endswith(b"}"):
        return not line
    return line.count(b"[") + line.count(b"{") <= DEEPEST


def _is_row(line: bytes) -> bool:
    """Whether a line is an object, or empty."""
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError:
        return not line.strip() or _is_odd_row(line)
    many = line.count(b"[") + line.count(b"{") > DEEPEST
    return isinstance(row, dict) and not (many and _is_too_deep(row))


def _is_odd_row(line: bytes) -> bool:
    """Whether it is an object that only other readers read: one with ``NaN`` in it."""
    try:
        json_row(line.decode())
    except ValueError:
        return False
    return True


def _fault(check: Callable[[], None]) -> RowError | None:
    """What a check refuses."""
    try:
        check()
    except RowError as error:
        return error
    return None


def _check(text: str, field: str | None) -> None:
    """Look at each row, by Python's reader, which knows where in the text it is.

    Raises:
        RowError: For the first row that cannot be used.
    """
    start = _skipped(text, 0)
    if field is not None:
        for whole in _values(text, start):
            _check_field(text, whole, field)
    elif text[start : start + 1] == "[":
        end = _skipped(text, _check_array(text, start))
        if end < len(text):
            raise _invalid("Extra data", text, end)
    else:
        _check_objects(text)


def _check_objects(text: str) -> None:
    for row in _values(text, _skipped(text, 0)):
        _check_row(row, text)


def _check_field(text: str, whole: _Value, field: str) -> None:
    _check_row(whole, text)
    for name, at in _members(text, whole.start):
        if name == field and text[at] == "[":
            _check_array(text, at)


def _check_array(text: str, at: int) -> int:
    """An array is one of objects, or one of texts, of which the library makes the
    column ``text``. Gives the character behind it."""
    first: _Value | None = None
    at = _skipped(text, at + 1)
    while text[at : at + 1] != "]":
        row = _value(text, at)
        first = first or row
        if not (isinstance(first.value, str) and isinstance(row.value, str)):
            _check_row(first, text)
            _check_row(row, text)
        at = _separated(text, row.end, "]")
    return at + 1


def _check_row(row: _Value, text: str) -> None:
    if not isinstance(row.value, dict):
        shown = text[row.start : row.end]
        shown = shown if len(shown) <= 40 else f"{shown[:39]}…"
        raise RowError(f"each row must be a JSON object, not {shown}", row.start)
    n = text.count("[", row.start, row.end) + text.count("{", row.start, row.end)
    if n > DEEPEST and _is_too_deep(row.value):
        raise _too_deep(row.start)


def _values(text: str, at: int) -> Iterator[_Value]:
    """The values of a text, one behind the other."""
    while at < len(text):
        found = _value(text, at)
        yield found
        at = _skipped(text, found.end)


def _members(text: str, at: int) -> Iterator[tuple[str, int]]:
    """The keys of the object that begins at a character, which is sound, and where
    their values begin."""
    at = _skipped(text, at + 1)
    while text[at : at + 1] != "}":
        name = _value(text, at)
        at = _skipped(text, _skipped(text, name.end) + 1)
        yield name.value, at
        at = _separated(text, _value(text, at).end, "}")


def _separated(text: str, at: int, end: str) -> int:
    """Where the next entry begins behind a comma, or the end of all is."""
    at = _skipped(text, at)
    if text[at : at + 1] == end:
        return at
    if text[at : at + 1] != ",":
        raise _invalid(f"Expecting ',' or {end!r}", text, at)
    return _skipped(text, at + 1)


def _skipped(text: str, at: int) -> int:
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
        what = f"invalid JSON: an integer of more than {most:,} digits"
        raise RowError(what, at) from None
    return _Value(value, at, end)


def _invalid(what: str, text: str, at: int) -> RowError:
    column = at - text.rfind("\n", 0, at)
    return RowError(f"invalid JSON: {what} (column {column})", at)


def _too_deep(at: int) -> RowError:
    return RowError(f"values are nested more than {DEEPEST} levels deep", at)


_DECODER = json.JSONDecoder()
