"""Counts warnings about documents over a task and over processes."""

from __future__ import annotations

import re
from collections.abc import Iterable


class DocumentWarnings:
    """Unique warnings with the documents that they concern."""

    def __init__(self) -> None:
        self._documents: dict[str, dict[str, None]] = {}

    def add(self, text: str, document: str = "") -> None:
        """Add a warning, once per document."""
        documents = self._documents.setdefault(text, {})
        if document:
            documents[document] = None

    def texts(self) -> tuple[str, ...]:
        """Return all warnings in order of occurrence, with the number of documents."""
        return tuple(
            f"{text} ({_count_text(len(documents), next(iter(documents)))})"
            if documents
            else text
            for text, documents in list(self._documents.items())
        )


_WITH_COUNT = re.compile(
    r"(?P<text>.+) \((?:(?P<n>\d+) documents, first )?document (?P<first>\S+)\)"
)


def merge_warnings(texts: Iterable[str]) -> list[str]:
    """Merge the warnings of several processes: each once, with the total number of
    documents and the first one."""
    counts: dict[str, tuple[int, str]] = {}
    for text in texts:
        parts = _WITH_COUNT.fullmatch(text)
        if parts is None:
            counts.setdefault(text, (0, ""))
            continue
        n, first = counts.get(parts["text"], (0, parts["first"]))
        counts[parts["text"]] = (n + int(parts["n"] or 1), first)
    return [
        f"{text} ({_count_text(n, first)})" if n else text
        for text, (n, first) in counts.items()
    ]


def without_count(text: str) -> str:
    """Return a warning without its documents."""
    parts = _WITH_COUNT.fullmatch(text)
    return text if parts is None else parts["text"]


def _count_text(n: int, first: str) -> str:
    return f"document {first}" if n == 1 else f"{n} documents, first document {first}"
