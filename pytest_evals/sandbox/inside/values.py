"""Plain values as JSON, so that they cross from a program to its checker as data, and
messages on a pipe: four bytes of length, big-endian, and JSON.

A value arrives with a built-in type, never with a class of the program: an object
whose ``__eq__`` is always true cannot cross. Values of other classes become handles.
"""

from __future__ import annotations

import importlib
import json
import os
import struct
import sys
from collections.abc import Callable
from typing import Any, NoReturn

Keep = Callable[[Any], Any]
"""Returns JSON of a handle for a value without a plain form, or raises an exception."""


def has_no_data(value: object) -> NoReturn:
    """Refuse a value without a plain form."""
    raise TypeError(f"{type(value).__name__} is not data")


_SEQUENCES: dict[str, Any] = {
    kind.__name__: kind for kind in (list, tuple, set, frozenset)
}
_MAKERS: dict[str, Callable[..., Any]] = {
    **_SEQUENCES,
    "int": lambda text: int(text, 16),
    "float": float,
    "complex": complex,
    "bytes": bytes.fromhex,
    "bytearray": bytearray.fromhex,
    "range": range,
}
_LIBRARY: dict[str, tuple[str, str]] = {
    "Decimal": ("decimal", ""),
    "Fraction": ("fractions", ""),
    "date": ("datetime", "fromisoformat"),
    "datetime": ("datetime", "fromisoformat"),
    "time": ("datetime", "fromisoformat"),
}
"""Classes of the standard library: their modules, and the methods that make them from
text. Imported when a program uses them: a new interpreter starts sooner."""


def encode(value: Any, keep: Keep = has_no_data) -> Any:
    """Return JSON for a value. Subclasses of built-in types, such as counters and
    named tuples, are encoded as these types."""
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return {"int": [format(int.__index__(value), "x")]}
    if isinstance(value, float):
        return {"float": [float.__repr__(value)]}
    for name, kind in _SEQUENCES.items():
        if isinstance(value, kind):
            return {name: [[encode(one, keep) for one in kind.__iter__(value)]]}
    return _rare(value, keep)


def _rare(value: Any, keep: Keep) -> Any:
    if isinstance(value, dict):
        pairs = dict.items(value)
        return {"dict": [[encode(k, keep), encode(v, keep)] for k, v in pairs]}
    kind = type(value)
    if kind in (bytes, bytearray):
        return {kind.__name__: [value.hex()]}
    if kind is range:
        return {"range": [value.start, value.stop, value.step]}
    module, method = _LIBRARY.get(kind.__name__, ("", ""))
    loaded = sys.modules.get(module) if module else None
    if kind is complex or (
        loaded is not None and getattr(loaded, kind.__name__, None) is kind
    ):
        return {kind.__name__: [value.isoformat() if method else str(value)]}
    return _of_numpy(value, keep)


def _of_numpy(value: Any, keep: Keep) -> Any:
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.generic):
        return encode(value.item(), keep)
    if (
        numpy is not None
        and type(value) is numpy.ndarray
        and value.dtype.kind in "biufc"
    ):
        return {"array": [value.dtype.str, encode(value.tolist(), keep)]}
    return keep(value)


def decode(data: Any, handle: Callable[[Any], Any]) -> Any:
    """Return the value of JSON. ``handle``: called with the JSON of a handle. Raises
    ValueError if the JSON is not that of a value."""
    if data is None or isinstance(data, str | bool):
        return data
    if not isinstance(data, dict) or len(data) != 1:
        raise ValueError("not a value")
    ((name, parts),) = data.items()
    if name == "handle":
        return handle(parts)
    if not isinstance(parts, list):
        raise ValueError("not a value")
    try:
        if name == "dict":
            return {decode(k, handle): decode(v, handle) for k, v in parts}
        if name == "array":
            import numpy

            return numpy.array(decode(parts[1], handle), numpy.dtype(str(parts[0])))
        if name in _SEQUENCES:
            parts = [[decode(one, handle) for one in parts[0]]]
        if name in _LIBRARY:
            module, method = _LIBRARY[name]
            kind = getattr(importlib.import_module(module), name)
            return (getattr(kind, method) if method else kind)(str(parts[0]))
        return _MAKERS[name](*parts)
    except (TypeError, KeyError, ArithmeticError, ImportError) as error:
        raise ValueError(f"not a value: {error}") from None


_HEAD = struct.Struct(">I")
LONGEST = 64 << 20  # longest message that is read, in bytes


def read_exactly(descriptor: int, size: int) -> bytes:
    """Read without reading ahead. Raises EOFError if the other end closed the pipe."""
    parts = []
    while size:
        part = os.read(descriptor, min(size, 1 << 20))
        if not part:
            raise EOFError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def read_frame(descriptor: int) -> Any:
    """Read a message. Raises EOFError if the other end closed the pipe; ValueError if
    it is not a message."""
    (size,) = _HEAD.unpack(read_exactly(descriptor, _HEAD.size))
    if size > LONGEST:
        raise ValueError(f"a message of {size} bytes")
    return json.loads(read_exactly(descriptor, size))


def frame(message: Any) -> bytes:
    """Encode a message."""
    data = json.dumps(message).encode()
    return _HEAD.pack(len(data)) + data


def write_all(descriptor: int, data: bytes) -> None:
    """Write all bytes."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
