"""From questions and answers to a prompt: plain text, or a chat.

A prompt is a list of turns. A turn is a message with the text that follows it in a
plain prompt and is left out in a chat. Equals lm-eval 0.4.13, ``api/task.py``
(``fewshot_context``, ``build_qa_turn``) and ``api/utils.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pytest_evals.core.request import Message, Prompt, Role


class Turn(NamedTuple):
    """A message, and the text behind it in a plain prompt."""

    role: Role
    content: str
    suffix: str = ""


def shot_turns(
    question: str, answer: str | None, prefix: str, target_delimiter: str, end: str
) -> tuple[Turn, ...]:
    """A question with its answer. ``None`` leaves the question alone.

    Args:
        question: The question.
        answer: The answer.
        prefix: How the answer begins, before the answer proper.
        target_delimiter: Between question and answer.
        end: Behind the answer.
    """
    if answer is None:
        return final_turns(question, prefix, target_delimiter)
    suffix = "" if prefix and not _apart(question, prefix) else target_delimiter
    return (
        Turn("user", question, suffix),
        Turn("assistant", joined(prefix, answer, " "), end),
    )


def final_turns(question: str, prefix: str, target_delimiter: str) -> tuple[Turn, ...]:
    """A question that waits for its answer, which may have begun already."""
    if not prefix:
        return (Turn("user", question),)
    suffix = target_delimiter if _apart(question, prefix) else ""
    return Turn("user", question, suffix), Turn("assistant", prefix)


def joined(left: str, right: str, delimiter: str) -> str:
    """Both texts; the delimiter between them if neither is empty or has white space
    there."""
    if not left or not right:
        return left or right
    return left + (delimiter if _apart(left, right) else "") + right


def render(turns: Sequence[Turn], *, chat: bool, multiturn: bool) -> Prompt:
    """The prompt of some turns.

    Args:
        turns: At least one; only the first may be the system's.
        chat: Messages instead of plain text.
        multiturn: In a chat, each turn as its own message; else all but the system's
            and an answer that has begun are one message of the user.
    """
    if not chat:
        return "".join([part for turn in turns for part in turn[1:]])
    if multiturn:
        return tuple(Message(turn.role, turn.content) for turn in turns)
    system = [turn for turn in turns[:1] if turn.role == "system"]
    begun = [turn for turn in turns[-1:] if turn.role == "assistant"]
    middle = turns[len(system) : len(turns) - len(begun)]
    text = "".join([part for turn in middle[:-1] for part in turn[1:]])
    user = Message("user", text + middle[-1].content)
    return (
        *(Message(turn.role, turn.content) for turn in system),
        user,
        *(Message(turn.role, turn.content) for turn in begun),
    )


def _apart(left: str, right: str) -> bool:
    """Whether a delimiter belongs between two texts; never after nothing."""
    if not left:
        return False
    return not (left[-1].isspace() or right[0].isspace())
