"""What a document's own code prints, kept for its report where pytest keeps that of
tests. pytest's own capture would cost a document as much as its scoring."""

from __future__ import annotations

import io
import sys
from typing import TextIO

import pytest

__all__ = ["Printed", "Section"]

Section = tuple[str, str]
"""Heading and text, as reports have it."""


class _Kept(io.TextIOWrapper):
    """Holds what is written; the descriptor is that of the stream in whose place it
    stands, for child processes."""

    def __init__(self, descriptor: int) -> None:
        self._bytes = io.BytesIO()
        super().__init__(self._bytes, "utf-8", "replace", "", write_through=True)
        self._descriptor = descriptor

    @property
    def is_unused(self) -> bool:
        """Whether nobody has written anything to it."""
        return not self.closed and not self._bytes.tell()

    @property
    def text(self) -> str:
        """All that was written; nothing, if somebody has closed it."""
        return "" if self.closed else self._bytes.getvalue().decode("utf-8", "replace")

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

    def end(self) -> list[Section]:
        """Keep nothing any more; gives what was kept."""
        if self._before is None:
            return []
        sys.stdout, sys.stderr = self._before
        self._before = None
        out, err = self._kept
        if out.is_unused and err.is_unused:
            return []
        self._kept = (_Kept(1), _Kept(2))
        told = {"Captured stdout call": out.text, "Captured stderr call": err.text}
        return [(name, text) for name, text in told.items() if text]
