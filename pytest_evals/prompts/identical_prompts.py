"""Tasks whose documents all send the same: a misspelt column, as a rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

ALLOWED = "identical_prompts"
"""Entry of a task's metadata by which it says that this is meant."""


def are_allowed(metadata: Mapping[str, Any]) -> bool:
    """Whether a task's metadata allow identical prompts."""
    return metadata.get(ALLOWED) is True


def noted(text: str) -> str:
    """The note on a task of lm-eval's, whose numbers stay."""
    return f"{text} if it is meant, write metadata: {{{ALLOWED}: true}}"


@dataclass(eq=False)
class IdenticalPrompts:
    """Whether the documents of a task all send the same.

    As a rule the first two differ, and no others are rendered. The whole dataset
    counts, whatever is selected of it, so that two equal rows alone are no fault.

    Args:
        sent: Position of a document → all that is sent about it; ``None`` for nothing.
            A document for which it raises something says nothing about the others.
        total: Number of documents.
    """

    sent: Callable[[int], Any]
    total: Callable[[], int]

    @cached_property
    def n(self) -> int:
        """How many documents send the same; 0 if any two differ."""
        first, n, total = None, 0, self.total()
        for index in range(total if total > 1 else 0):
            try:
                sent = self.sent(index)
            except Exception:  # noqa: BLE001 - raised again where the document is run
                continue
            if not sent or (n and sent != first):
                return 0
            first, n = sent, n + 1
        return n if n > 1 else 0

    @property
    def text(self) -> str:
        """What is said of such a task."""
        return f"all {self.n:,} documents send the same prompt; is a column misspelt?"
