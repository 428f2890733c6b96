"""Detects tasks in which all documents send the same request, usually due to a
misspelled column."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

ALLOWED = "identical_prompts"
"""Key of a task's metadata that allows identical prompts."""


def are_allowed(metadata: Mapping[str, Any]) -> bool:
    """Return whether a task's metadata allow identical prompts."""
    return metadata.get(ALLOWED) is True


def warning_text(text: str) -> str:
    """Return the warning for an lm-eval task, whose numbers remain valid."""
    return f"{text} if this is intended, set metadata: {{{ALLOWED}: true}}"


@dataclass(eq=False)
class IdenticalPrompts:
    """Checks whether all documents of a task send the same requests.

    Usually the first two differ, and no others are rendered. The whole dataset is
    checked independent of the selection, so that two equal rows alone are not an error.
    """

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
