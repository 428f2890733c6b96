"""Builds a prompt from questions and answers: plain text, or a chat.

A prompt is a list of turns. A turn is a message and the text that follows it in a plain
prompt, which is omitted in a chat. Equals lm-eval 0.4.13, ``api/task.py``
(``fewshot_context``, ``build_qa_turn``) and ``api/utils.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Self

from pytest_evals.core.request import Message, Prompt, Role


class Turn(NamedTuple):
    """A message, and the text that follows it in a plain prompt."""

    role: Role
    content: str
    suffix: str = ""


class ChatText(str):
    """A chat as a string that also has its messages, for lm-eval, which passes prompts
    on as strings."""

    messages: tuple[Message, ...] = ()

    @classmethod
    def of(cls, text: str, messages: tuple[Message, ...]) -> Self:
        """Return the text with the messages of the chat."""
        chat = cls(text)
        chat.messages = messages
        return chat


def example_turns(
    question: str, answer: str | None, prefix: str, target_delimiter: str, end: str
) -> tuple[Turn, ...]:
    """Return a question with its answer; without an answer, the question only."""
    if answer is None:
        return final_turns(question, prefix, target_delimiter)
    suffix = (
        "" if prefix and not _needs_delimiter(question, prefix) else target_delimiter
    )
    return (
        Turn("user", question, suffix),
        Turn("assistant", join_text(prefix, answer, " "), end),
    )


def final_turns(question: str, prefix: str, target_delimiter: str) -> tuple[Turn, ...]:
    """Return the question to answer, with the start of its answer if there is one."""
    if not prefix:
        return (Turn("user", question),)
    suffix = target_delimiter if _needs_delimiter(question, prefix) else ""
    return Turn("user", question, suffix), Turn("assistant", prefix)


def join_text(left: str, right: str, delimiter: str) -> str:
    """Join two strings, with the delimiter if neither is empty or blank there."""
    if not left or not right:
        return left or right
    return left + (delimiter if _needs_delimiter(left, right) else "") + right


def render(turns: Sequence[Turn], *, chat: bool, multiturn: bool) -> Prompt:
    """Return the prompt of turns. ``turns``: at least one; only the first may be the
    system's. ``chat``: messages instead of plain text. ``multiturn``: in a chat, use
    one message per turn; otherwise one user message for all except the system's and the
    start of an answer."""
    if not chat:
        return "".join([part for turn in turns for part in turn[1:]])
    if multiturn:
        return tuple(Message(turn.role, turn.content) for turn in turns)
    system = [turn for turn in turns[:1] if turn.role == "system"]
    answer_start = [turn for turn in turns[-1:] if turn.role == "assistant"]
    middle = turns[len(system) : len(turns) - len(answer_start)]
    text = "".join([part for turn in middle[:-1] for part in turn[1:]])
    user = Message("user", text + middle[-1].content)
    return (
        *(Message(turn.role, turn.content) for turn in system),
        user,
        *(Message(turn.role, turn.content) for turn in answer_start),
    )


def _needs_delimiter(left: str, right: str) -> bool:
    """Return whether two strings need a delimiter; never after an empty one."""
    if not left:
        return False
    return not (left[-1].isspace() or right[0].isspace())
