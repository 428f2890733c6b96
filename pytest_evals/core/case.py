"""One case of an eval: a prompt and what a good answer is compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_evals.core.request import Message

CasePrompt = str | Sequence[Message | Mapping[str, str]]
"""Text, or the messages of a chat: ``{"role": "user", "content": "…"}``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A prompt, its target and further data for scorers.

    Args:
        prompt: Sent to the model.
        target: What the answer is compared with; a list of accepted texts, or any value
            that custom scorers read. ``None`` if nothing is compared.
        id: Unique within the eval; the position if empty.
        row: Further values by name: the row of the data, or the keyword arguments of
            :func:`case`.
    """

    prompt: CasePrompt
    target: Any = None
    id: str = ""
    row: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        """Return a value of the row."""
        return self.row[name]


def case(prompt: CasePrompt, target: Any = None, id: str = "", **row: Any) -> Case:  # noqa: A002 - pytest's word
    """Return a case; keyword arguments are its row, which scorers can read.

    >>> case("2 + 2 =", target="4", topic="sums")["topic"]
    'sums'
    """
    return Case(prompt=prompt, target=target, id=id, row=row)
