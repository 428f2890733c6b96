"""Captured output of a document's own code."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from typing import Any, TextIO

import pytest

Section = tuple[str, str]
"""Heading and text, as in ``report.sections``."""


class _Bytes(io.BytesIO):
    """Records whether it was written to or closed."""

    is_touched = False

    def write(self, data: Any, /) -> int:
        self.is_touched = True
        return super().write(data)

    def close(self) -> None:
        self.is_touched = True
        super().close()


class _Stream(io.TextIOWrapper):
    """Keeps what is written in memory. Its file descriptor is that of the stream that
    it replaces, for child processes."""

    def __init__(self, descriptor: int) -> None:
        self.bytes = _Bytes()
        super().__init__(self.bytes, "utf-8", "replace", "", write_through=True)
        self._descriptor = descriptor

    @property
    def text(self) -> str:
        """Everything that was written; empty if the stream was closed."""
        return "" if self.closed else self.bytes.getvalue().decode("utf-8", "replace")

    def fileno(self) -> int:
        return self._descriptor


class DocumentCapture:
    """Replaces both standard streams while a document runs, unless ``-s`` is given.

    pytest suspends its own capture between tests, and resuming it for each document
    would duplicate file descriptors twice.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._is_on = config.getoption("capture", "no") in ("fd", "sys")
        self._streams: tuple[_Stream, _Stream] = (_Stream(1), _Stream(2))
        self._replaced: tuple[TextIO, TextIO] | None = None

    def start(self) -> None:
        """Replace the streams."""
        if self._is_on:
            self._replaced = sys.stdout, sys.stderr
            sys.stdout, sys.stderr = self._streams

    def stop(self) -> Sequence[Section]:
        """Restore the streams, and return what was written."""
        if self._replaced is None:
            return ()
        sys.stdout, sys.stderr = self._replaced
        self._replaced = None
        out, err = self._streams
        if not (out.bytes.is_touched or err.bytes.is_touched):
            return ()
        self._streams = (_Stream(1), _Stream(2))
        texts = {"Captured stdout call": out.text, "Captured stderr call": err.text}
        return [(heading, text) for heading, text in texts.items() if text]
