"""Counts warnings about documents over a task and over processes, and detects tasks in
which all documents send the same request, usually due to a misspelled column."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any


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


ALLOWED = "identical_prompts"  # key of a task's metadata that allows identical prompts


def are_allowed(metadata: Mapping[str, Any]) -> bool:
    """Return whether a task's metadata allow identical prompts."""
    return metadata.get(ALLOWED) is True


def warning_text(text: str) -> str:
    """Return the warning for an lm-eval task, whose numbers remain valid."""
    return f"{text} if this is intended, set metadata: {{{ALLOWED}: true}}"


@dataclass(eq=False)
class IdenticalPrompts:
    """Checks whether all documents of a task send the same requests. Usually the first
    two differ, and no others are rendered. The whole dataset is checked independent of
    the selection, so that two equal rows alone are not an error."""

    sent: Callable[[int], Any]
    """Position of a document → its requests; ``None`` for none. A document for which it
    raises is ignored."""
    total: Callable[[], int]

    @cached_property
    def n(self) -> int:
        """Number of documents that send the same requests; 0 if any two differ."""
        first, n, total = None, 0, self.total()
        for index in range(total if total > 1 else 0):
            try:
                sent = self.sent(index)
            except Exception:  # noqa: BLE001 - raised again when it runs
                continue
            if not sent or (n and sent != first):
                return 0
            first, n = sent, n + 1
        return n if n > 1 else 0

    @property
    def text(self) -> str:
        """The message for such a task."""
        return (
            f"all {self.n:,} documents send the same prompt; check the names of columns"
        )
