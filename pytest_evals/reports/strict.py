"""Strict JSON for any value: values that JSON cannot represent become strings, or null
with a note."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Set
from typing import Any

import orjson

DEEPEST = 100
"""Maximum depth of nested values."""

_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
_PLAIN = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME
_STRICT = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":")
).encode


def strict_line(value: Any) -> str:
    """Return the value as one line of strict JSON.

    The encoder supports nearly every value; others are converted with :func:`strict`.
    """
    try:
        return orjson.dumps(value, option=_PLAIN).decode()
    except orjson.JSONEncodeError:
        return _STRICT(strict(value))


def strict(value: Any, notes: list[str] | None = None, where: str = "") -> Any:
    """Return the value as dicts with string keys, lists, strings, finite numbers,
    booleans and null.

    Args:
        notes: Receives a line for each number that JSON cannot represent; it becomes
            null.
        where: Name of the value in notes.
    """
    try:
        # There and back in C: many times faster, and enough for nearly every value.
        text = _ENCODER.encode(value)
        text.encode("utf-8")
        return json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return _Members(notes).made(value, where)


class _Members:
    """Converts member by member: only values that JSON cannot represent change."""

    def __init__(self, notes: list[str] | None) -> None:
        self._notes = notes
        self._open: list[int] = []

    def made(self, value: Any, where: str) -> Any:
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int):
            return _whole(int(value))
        if isinstance(value, str):
            return _encodable(value)
        if isinstance(value, float):
            return self._finite(value, where)
        if id(value) in self._open or len(self._open) >= DEEPEST:
            return self._cut(where)
        self._open.append(id(value))
        try:
            return self._inside(value, where)
        finally:
            self._open.pop()

    def _inside(self, value: Any, where: str) -> Any:
        if isinstance(value, Mapping):
            dot = f"{where}." if where else ""
            return {
                _key(key): self.made(member, f"{dot}{key}")
                for key, member in value.items()
            }
        if isinstance(value, (list, tuple, Set)):
            members = sorted(value, key=repr) if isinstance(value, Set) else value
            return [self.made(v, f"{where}[{i}]") for i, v in enumerate(members)]
        # Arrays and scalars of numpy and torch give themselves in Python; else text.
        plain = getattr(value, "tolist", None)
        if callable(plain):
            made = plain()
            if type(made) is not type(value):
                return self.made(made, where)
        return _encodable(_text_of(value))

    def _finite(self, value: float, where: str) -> float | None:
        if math.isfinite(value):
            return float(value)
        self._note(f"{where}: {value} is not a JSON number; written as null")
        return None

    def _cut(self, where: str) -> str:
        text = f"contains itself, or is nested more than {DEEPEST} levels deep"
        self._note(f"{where}: {text}; written as '…'")
        return "…"

    def _note(self, text: str) -> None:
        if self._notes is not None:
            self._notes.append(text)


def _text_of(value: Any) -> str:
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - a method of somebody else's class
        return f"<{type(value).__name__}>"


def _whole(value: int) -> int | str:
    """Return an integer; as a string if too long for Python to format."""
    try:
        str(value)
    except ValueError:
        return hex(value)
    return value


def _encodable(text: str) -> str:
    """Return the string with lone surrogates escaped: UTF-8 has none."""
    if text.isascii():
        return str(text)
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _key(key: object) -> str:
    """Return a key as the encoder writes it: non-strings become strings."""
    if isinstance(key, bool) or key is None:
        return {True: "true", False: "false", None: "null"}[key]
    return _encodable(str(key))
