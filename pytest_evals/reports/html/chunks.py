"""Data for the page: JSON, compressed, in base64.

None of its characters means anything to a browser, so what a model wrote can neither
end a script nor begin one. Few rows stand in the page itself, many beside it, as
scripts: a page from the disk may load nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from typing import Any

from pytest_evals.reports.strict import strict_line

LARGEST = 20 * 2**20
"""Characters of rows that may stand in the page itself."""
_DOCUMENTS, _CHARACTERS = 256, 2**20
"""Of a chunk, whichever comes first."""
_LEVEL = 4
"""Of compression: half the time of 6, for a twentieth more."""


def packed(value: Any) -> str:
    """JSON values as text that is safe anywhere in a page."""
    return _packed(strict_line(value))


def _packed(text: str) -> str:
    small = zlib.compress(text.encode("utf-8"), _LEVEL)
    return base64.b64encode(small).decode("ascii")


class Chunks:
    """The documents of a run, many together."""

    def __init__(self) -> None:
        """There is nothing yet."""
        self.texts: list[str] = []
        """The chunks."""
        self.sizes: list[int] = []
        """Documents of each chunk."""
        self._open: list[str] = []
        self._n = 0

    def add(self, whole: dict[str, Any]) -> None:
        """Take a document."""
        line = strict_line(whole)
        self._open.append(line)
        self._n += len(line)
        if len(self._open) >= _DOCUMENTS or self._n >= _CHARACTERS:
            self.end()

    def end(self) -> None:
        """Close the chunk that is open; the next document begins another one."""
        if self._open:
            self.texts.append(_packed(f"[{','.join(self._open)}]"))
            self.sizes.append(len(self._open))
            self._open, self._n = [], 0

    @property
    def size(self) -> int:
        """Characters of all chunks."""
        return sum(map(len, self.texts))

    def digest(self) -> str:
        """Short, and another one for other documents."""
        found = hashlib.sha256()
        for text in self.texts:
            found.update(text.encode("ascii"))
        return found.hexdigest()[:12]
