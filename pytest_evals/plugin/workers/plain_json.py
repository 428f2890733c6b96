"""Plain Python values as JSON and back, unlike JSON with their types: tuples and lists,
keys of any type, bytes, sets, and numbers that are not finite.

Files of parts of runs are read on other machines, from artifacts that others may have
changed. JSON makes values only; ``marshal`` and ``pickle`` would trust the file.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

_AS_THEY_ARE = frozenset({bool, int, str, type(None)})
_ENCODE = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


def plain_text(value: Any) -> str:
    """Return a value as one line of JSON: an array is a tuple, and an object with one
    key is any other type.

    Raises:
        ValueError: A value is not plain Python.
    """
    return _ENCODE(_encoded(value))


def plain_value(text: str | bytes) -> Any:
    """Return the value of :func:`plain_text`.

    Raises:
        ValueError: The text was not made by it.
    """
    try:
        return _decoded(json.loads(text))
    except (TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ValueError(f"not a plain value: {error}") from None


def _encoded(value: Any) -> Any:
    kind = type(value)
    if kind in _AS_THEY_ARE or (kind is float and math.isfinite(value)):
        return value
    if kind is tuple:
        return [*map(_encoded, value)]
    if kind not in _ENCODERS:
        raise ValueError(f"a value of type {kind.__name__} is not plain Python")
    return {kind.__name__: _ENCODERS[kind](value)}


_ENCODERS: Mapping[type, Callable[[Any], Any]] = {
    float: repr,
    list: lambda value: [*map(_encoded, value)],
    dict: lambda value: [[_encoded(k), _encoded(v)] for k, v in value.items()],
    set: lambda value: [*map(_encoded, sorted(value, key=repr))],
    frozenset: lambda value: [*map(_encoded, sorted(value, key=repr))],
    bytes: bytes.hex,
    complex: lambda value: [_encoded(value.real), _encoded(value.imag)],
}


def _decoded(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_decoded, value))
    if isinstance(value, dict):
        ((kind, inside),) = value.items()
        return _DECODERS[kind](inside)
    return value


_DECODERS: Mapping[str, Callable[[Any], Any]] = {
    "float": float,
    "list": lambda inside: [*map(_decoded, inside)],
    "dict": lambda inside: {_decoded(k): _decoded(v) for k, v in inside},
    "set": lambda inside: {*map(_decoded, inside)},
    "frozenset": lambda inside: frozenset(map(_decoded, inside)),
    "bytes": bytes.fromhex,
    "complex": lambda inside: complex(*map(_decoded, inside)),
}
