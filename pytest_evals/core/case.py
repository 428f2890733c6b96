"""One case of an eval: a prompt and what a good answer is compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

from pytest_evals.core.choices import checked_choices, golds_of
from pytest_evals.core.request import Message, Prompt, Role
from pytest_evals.errors import DocumentError

_ROLES = get_args(Role)
CasePrompt = str | Sequence[Message | Mapping[str, str]]
"""What users write: text, or the messages of a chat, such as ``{"role": "user",
"content": "…"}``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A prompt, its target and further data for scorers.

    Args:
        prompt: Sent to the model; messages are kept as a tuple of :class:`Message`.
        target: What the answer is compared with; a list of accepted texts, or any value
            that custom scorers read. ``None`` if nothing is compared.
        id: Unique within the eval; the position if empty.
        row: Further values by name: the row of the data, or the keyword arguments of
            :func:`case`.
        choices: Possible answers, kept as a tuple of texts; ``target`` is then the
            text, the letter or the index of the correct one, or a list of these.
            ``None`` for an open answer.

    Raises:
        DocumentError: The prompt is neither text nor messages, or is empty; or choices
            or their target are invalid.
    """

    prompt: Prompt
    target: Any = None
    id: str = ""
    row: Mapping[str, Any] = field(default_factory=dict)
    choices: Sequence[str] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.prompt, str):
            object.__setattr__(self, "prompt", _messages(self.prompt))
        if not self.prompt:
            raise DocumentError("the prompt of a case is empty")
        if type(self.id) is not str:
            object.__setattr__(self, "id", "" if self.id is None else str(self.id))
        if self.choices is not None:
            object.__setattr__(self, "choices", checked_choices(self.choices))
            _ = self.golds

    def __getitem__(self, name: str) -> Any:
        """Return a value of the row."""
        return self.row[name]

    @property
    def golds(self) -> list[int]:
        """Indices of the correct choices."""
        return [] if self.choices is None else golds_of(self.target, self.choices)


def case(
    prompt: CasePrompt,
    target: Any = None,
    id: str = "",  # noqa: A002 - pytest's word
    choices: Sequence[str] | None = None,
    **row: Any,
) -> Case:
    """Return a case; keyword arguments are its row, which scorers can read.

    With ``choices``, ``target`` is the text, the letter or the index of the correct
    one.

    >>> case("2 + 2 =", target="4", topic="sums")["topic"]
    'sums'
    """
    return Case(prompt=prompt, target=target, id=id, row=row, choices=choices)  # type: ignore[arg-type]


def _messages(prompt: Any) -> tuple[Message, ...]:
    if not isinstance(prompt, Sequence) or isinstance(prompt, bytes):
        raise DocumentError(
            f"the prompt of a case is a {type(prompt).__name__}\n"
            "  fix: give text or a list of messages"
        )
    return tuple([_message(one) for one in prompt])


def _message(one: Any) -> Message:
    if isinstance(one, Mapping) and set(one) == {"role", "content"}:
        one = Message(one["role"], one["content"])
    if isinstance(one, Message) and one.role in _ROLES and isinstance(one.content, str):
        return one
    raise DocumentError(
        f"a message needs role ({', '.join(_ROLES)}) and content, both text\n"
        '  fix: {"role": "user", "content": "2 + 2 ="}'
    )
