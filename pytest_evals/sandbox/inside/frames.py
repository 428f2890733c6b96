"""Messages on a pipe: four bytes of length, big-endian, and JSON."""

from __future__ import annotations

import json
import os
import struct
from typing import Any

_HEAD = struct.Struct(">I")
LONGEST = 64 << 20
"""Longest message that is read, in bytes."""


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
