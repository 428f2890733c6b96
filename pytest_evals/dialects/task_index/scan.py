"""Finds the keys of a task file that name it, without parsing the whole file.

An index scans thousands of files for five keys each. Regular expressions find them in
nearly every file; unusual syntax is left to the YAML reader, so that both give the same
result.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from pytest_evals.dialects.yaml_reader.yaml_file import read_yaml
from pytest_evals.errors import TaskFileError

Keys = Mapping[str, str | list[str] | bool | None]
"""The scanned keys of a file. A value that is neither a string nor a list of strings is
``True``."""

_WATCHED = ("task", "group", "tag", "include", "class")
_TOP = re.compile(r"^[^\s#].*$", re.MULTILINE)
_KEY = re.compile(r"(['\"]?)([A-Za-z_][\w.-]*)\1[ \t]*:(?![^ \t\n])[ \t]*")
_NAME = r"(?:\.\.?/)*[A-Za-z_][\w./+-]*"
_SCALAR = rf"(?:(?P<plain>{_NAME})|\"(?P<double>[\w./+ -]+)\"|'(?P<single>[\w./+ -]+)')"
_TAIL = r"[ \t]*(?:[ \t]#.*)?"
_TEXT = re.compile(_SCALAR + _TAIL)
_ENTRY = re.compile(r"[ \t]*-[ \t]+" + _SCALAR + _TAIL)
_MAPPING = re.compile(r"[ \t]*-[ \t]+[A-Za-z_][\w-]*:(?:[ \t]|$)")
_BLANK = re.compile(r"[ \t]*(?:#.*)?")
_NO_TEXT = frozenset(["y", "n", "yes", "no", "on", "off", "true", "false", "null"])
"""Words that YAML 1.1, or some of its readers, do not read as strings."""
_CLOSED = {
    '"': re.compile(r'"(?:[^"\\]|\\.)*"\s*(?:#.*)?', re.DOTALL),
    "'": re.compile(r"'(?:[^']|'')*'\s*(?:#.*)?", re.DOTALL),
    "[": re.compile(r".*\]", re.DOTALL),
    "{": re.compile(r".*\}", re.DOTALL),
}


def scan(path: Path) -> Keys | None:
    """Return the keys of a file, without its includes.

    Returns:
        ``None`` if the file cannot be read.
    """
    try:
        text = path.read_bytes().removeprefix(b"\xef\xbb\xbf").decode()
        return _scan_text(text.replace("\r\n", "\n"))
    except _UnusualError:
        return _parse(path)
    except (OSError, UnicodeDecodeError):
        return None


class _UnusualError(Exception):
    """The patterns cannot read this text."""


def _scan_text(text: str) -> Keys:
    keys: dict[str, str | list[str] | bool | None] = {}
    if "\r" in text or "\t-" in text:
        raise _UnusualError
    tops = [m.span() for m in _TOP.finditer(text) if text[m.start()] != "-"]
    before = text[: tops[0][0]] if tops else text
    if not all(_BLANK.fullmatch(line) or line == "---" for line in before.split("\n")):
        raise _UnusualError
    ends = [start for start, _ in tops[1:]] + [len(text)] * bool(tops)
    for (start, _), end in zip(tops, ends, strict=True):
        key = _KEY.match(text, start, end)
        if key is None:
            raise _UnusualError
        value = text[key.end() : end]
        name = key.group(2)
        if name in _WATCHED:
            keys[name] = _value(name, value)
        elif _may_continue(value):
            raise _UnusualError
    return keys


def _may_continue(value: str) -> bool:
    """Return whether a value may extend beyond the next line that looks like a key, or
    contains the end of the document."""
    if "\n---" in value or "\n..." in value:
        return True
    closed = _CLOSED.get(value[:1])
    if closed is not None:
        return not closed.fullmatch(value.strip())
    return value[:1] not in ("|", ">") and value.count('"') % 2 == 1


def _value(name: str, value: str) -> str | list[str] | bool | None:
    first, *rest = value.split("\n")
    lines = [line for line in rest if not _BLANK.fullmatch(line)]
    if _BLANK.fullmatch(first):
        if not lines:
            return None
        entries = [_ENTRY.fullmatch(line) for line in lines]
        # Lines that are indented differently continue the entry before.
        if all(entries) and len({line.index("-") for line in lines}) == 1:
            return [_text(entry) for entry in entries if entry]
        if name == "task" and _MAPPING.match(lines[0]):
            return True
        raise _UnusualError
    match = _TEXT.fullmatch(first)
    if lines or match is None:
        if name == "class" and first.startswith("!function ") and not lines:
            return True
        raise _UnusualError
    return _text(match)


def _text(match: re.Match[str]) -> str:
    plain = match["plain"]
    if plain is not None and plain.lower() in _NO_TEXT:
        raise _UnusualError
    return plain or match["double"] or match["single"]


def _parse(path: Path) -> Keys | None:
    try:
        values = read_yaml(path).values
    except TaskFileError:
        return None
    return {key: _summary(values[key]) for key in _WATCHED if key in values}


def _summary(value: object) -> str | list[str] | bool | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return list(value)
    return True
