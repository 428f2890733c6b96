"""Data of the report: compressed JSON in base64.

Base64 has no characters with a meaning in HTML, so model output can neither end nor
start a script. Few rows are embedded in the page; many are in separate scripts next to
it, because a page opened from disk cannot load anything else.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from typing import Any

from pytest_evals.reports.strict import strict_line

LARGEST = 20 * 2**20
"""Maximum characters of rows embedded in the page."""
_DOCUMENTS, _CHARACTERS = 256, 2**20
"""Maximum size of a chunk, whichever is reached first."""
_LEVEL = 4
"""Compression level: half the time of level 6, 5% larger."""


def packed(value: Any) -> str:
    """Return JSON values as text that is safe anywhere in a page."""
    return _packed(strict_line(value))


def _packed(text: str) -> str:
    small = zlib.compress(text.encode("utf-8"), _LEVEL)
    return base64.b64encode(small).decode("ascii")


class Chunks:
    """The documents of a run in chunks."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        """The chunks."""
        self.sizes: list[int] = []
        """Number of documents in each chunk."""
        self._open: list[str] = []
        self._n = 0

    def add(self, whole: dict[str, Any]) -> None:
        """Add a document."""
        line = strict_line(whole)
        self._open.append(line)
        self._n += len(line)
        if len(self._open) >= _DOCUMENTS or self._n >= _CHARACTERS:
            self.end()

    def end(self) -> None:
        """Close the current chunk; the next document starts a new one."""
        if self._open:
            self.texts.append(_packed(f"[{','.join(self._open)}]"))
            self.sizes.append(len(self._open))
            self._open, self._n = [], 0

    @property
    def size(self) -> int:
        """Return the number of characters of all chunks."""
        return sum(map(len, self.texts))

    def digest(self) -> str:
        """Return a short hash of the documents."""
        found = hashlib.sha256()
        for text in self.texts:
            found.update(text.encode("ascii"))
        return found.hexdigest()[:12]
