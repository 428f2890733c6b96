"""Captured output of a document's own code."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from typing import Any, TextIO

import pytest

Section = tuple[str, str]
"""Heading and text, as reports have it."""


class _Bytes(io.BytesIO):
    """Knows whether anything was done to it."""

    is_touched = False

    def write(self, data: Any, /) -> int:
        self.is_touched = True
        return super().write(data)

    def close(self) -> None:
        self.is_touched = True
        super().close()


class _Kept(io.TextIOWrapper):
    """Holds what is written; the descriptor is that of the stream in whose place it
    stands, for child processes."""

    def __init__(self, descriptor: int) -> None:
        self.kept = _Bytes()
        super().__init__(self.kept, "utf-8", "replace", "", write_through=True)
        self._descriptor = descriptor

    @property
    def text(self) -> str:
        """All that was written; nothing, if somebody has closed it."""
        return "" if self.closed else self.kept.getvalue().decode("utf-8", "replace")

    def fileno(self) -> int:
        return self._descriptor


class Printed:
    """Stands in for both streams while a document runs."""

    def __init__(self, config: pytest.Config) -> None:
        """Keep nothing yet; and nothing at all with ``-s``."""
        self._hides = config.getoption("capture", "no") in ("fd", "sys")
        self._kept: tuple[_Kept, _Kept] = (_Kept(1), _Kept(2))
        self._before: tuple[TextIO, TextIO] | None = None

    def begin(self) -> None:
        """From now on keep what is printed."""
        if self._hides:
            self._before = sys.stdout, sys.stderr
            sys.stdout, sys.stderr = self._kept

    def end(self) -> Sequence[Section]:
        """Keep nothing any more; gives what was kept."""
        if self._before is None:
            return ()
        sys.stdout, sys.stderr = self._before
        self._before = None
        out, err = self._kept
        if not (out.kept.is_touched or err.kept.is_touched):
            return ()
        self._kept = (_Kept(1), _Kept(2))
        told = {"Captured stdout call": out.text, "Captured stderr call": err.text}
        return [(name, text) for name, text in told.items() if text]
