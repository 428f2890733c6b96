"""Any value as strict JSON: what JSON cannot hold becomes text, or null with a note."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Set
from typing import Any

import orjson

__all__ = ["strict", "strict_line"]

_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
_MOST_BITS = 14_000
"""Python neither writes nor reads integers of more than 4,300 digits."""
_PLAIN = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME
_STRICT = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":")
).encode


def strict_line(value: Any) -> str:
    """The value as one line of strict JSON.

    The encoder knows nearly every value; what it does not know is made strict.
    """
    try:
        return orjson.dumps(value, option=_PLAIN).decode()
    except orjson.JSONEncodeError:
        return _STRICT(strict(value))


def strict(value: Any, notes: list[str] | None = None, where: str = "") -> Any:
    """The value out of dicts with text keys, lists, text, finite numbers, booleans and
    null.

    Args:
        value: Anything.
        notes: Takes a line for each number that JSON has no word for; it becomes null.
        where: What the value is called in notes.
    """
    try:
        # There and back in C: many times faster, and enough for nearly every value.
        text = _ENCODER.encode(value)
        text.encode("utf-8")
        return json.loads(text)
    except (TypeError, ValueError):
        return _member(value, notes, where)


def _member(value: Any, notes: list[str] | None, where: str) -> Any:
    """Member by member, so that only what JSON cannot hold is changed."""
    if value is None or type(value) is bool:
        return value
    if isinstance(value, str):
        return _encodable(value)
    if isinstance(value, float):
        return _finite(value, notes, where)
    if isinstance(value, Mapping):
        inside = f"{where}." if where else ""
        return {_key(k): _member(v, notes, f"{inside}{k}") for k, v in value.items()}
    if isinstance(value, (list, tuple, Set)):
        members = sorted(value, key=repr) if isinstance(value, Set) else value
        return [_member(v, notes, f"{where}[{i}]") for i, v in enumerate(members)]
    return _foreign(value, notes, where)


def _readable(value: int, notes: list[str] | None, where: str) -> int | None:
    if value.bit_length() <= _MOST_BITS:
        return value
    if notes is not None:
        notes.append(
            f"{where}: an integer of {value.bit_length()} bits; written as null"
        )
    return None


def _finite(value: float, notes: list[str] | None, where: str) -> float | None:
    if math.isfinite(value):
        return float(value)
    if notes is not None:
        notes.append(f"{where}: {value} is no number in JSON; written as null")
    return None


def _foreign(value: Any, notes: list[str] | None, where: str) -> Any:
    """Subclasses of int; arrays and scalars of numpy and torch, which say themselves
    what they are in Python; else text."""
    if isinstance(value, int):
        return _readable(int(value), notes, where)
    plain = getattr(value, "tolist", None)
    if callable(plain):
        made = plain()
        if type(made) is not type(value):
            return _member(made, notes, where)
    return _encodable(str(value))


def _encodable(text: str) -> str:
    """The text, with lone surrogates escaped: UTF-8 has no word for them."""
    if text.isascii():
        return str(text)
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _key(key: object) -> str:
    """A key as the encoder writes it: ``true``, ``null`` and numbers are text there."""
    if isinstance(key, bool) or key is None:
        return {True: "true", False: "false", None: "null"}[key]
    return _encodable(str(key))
