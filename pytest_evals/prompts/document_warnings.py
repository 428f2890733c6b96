"""Warnings about single documents, counted over a task and over processes."""

from __future__ import annotations

import re
from collections.abc import Iterable


class Notes:
    """Sentences, each once, with the documents that they are about."""

    def __init__(self) -> None:
        """Nothing is odd yet."""
        self._documents: dict[str, dict[str, None]] = {}

    def add(self, text: str, document: str = "") -> None:
        """Note something; once a document."""
        documents = self._documents.setdefault(text, {})
        if document:
            documents[document] = None

    def texts(self) -> tuple[str, ...]:
        """All notes in the order of their coming, with the number of documents."""
        return tuple(
            f"{text} ({_counted(len(documents), next(iter(documents)))})"
            if documents
            else text
            for text, documents in list(self._documents.items())
        )


_COUNTED = re.compile(
    r"(?P<text>.+) \((?:(?P<n>\d+) documents, first )?document (?P<first>\S+)\)"
)


def merged(texts: Iterable[str]) -> list[str]:
    """Notes of several processes as those of one: a note on documents once, with the
    number of all of them and the first that is named."""
    found: dict[str, tuple[int, str]] = {}
    for text in texts:
        parts = _COUNTED.fullmatch(text)
        if parts is None:
            found.setdefault(text, (0, ""))
            continue
        n, first = found.get(parts["text"], (0, parts["first"]))
        found[parts["text"]] = (n + int(parts["n"] or 1), first)
    return [
        f"{text} ({_counted(n, first)})" if n else text
        for text, (n, first) in found.items()
    ]


def uncounted(text: str) -> str:
    """A note without the documents that it is about."""
    parts = _COUNTED.fullmatch(text)
    return text if parts is None else parts["text"]


def _counted(n: int, first: str) -> str:
    return f"document {first}" if n == 1 else f"{n} documents, first document {first}"
