"""Documents that are a talk, which judges grade: the model is asked one thing after the
other, and sees what was said before.

The user's turns stand in ``doc.specific["multi_turn_queries"]``, as in lighteval's
MT-Bench; the first one is the document's query.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pytest_evals.core.dialogue import FollowUp, Turn
from pytest_evals.core.record import Record
from pytest_evals.core.request import Generate, Message, Prompt

__all__ = ["TURNS", "next_turn", "split"]

TURNS = "multi_turn_queries"


def split(turns: Sequence[Turn]) -> tuple[list[Turn], list[Turn]]:
    """What the tested model was asked, and what judges were."""
    own = [turn for turn in turns if not turn.asked.model]
    return own, [turn for turn in turns if turn.asked.model]


def next_turn(record: Record) -> FollowUp | None:
    """The next question to the tested model; ``None`` if the talk is over, or there is
    none.

    Raises:
        DocumentError: The model gave no answer to the last one.
    """
    queries = (record.doc.specific or {}).get(TURNS)
    first = next((r for r in record.requests if isinstance(r, Generate)), None)
    own, _ = split(record.turns)
    if not isinstance(queries, list | tuple) or first is None:
        return None
    if len(own) + 1 >= len(queries):
        return None
    said = own[-1].text if own else record.responses[0].text
    last = own[-1].asked.request if own else first
    assert isinstance(last, Generate), "talks are made of generated texts"
    messages = (
        *_messages(last.prompt),
        Message("assistant", said),
        Message("user", str(queries[len(own) + 1])),
    )
    return FollowUp("", replace(last, prompt=messages))


def _messages(prompt: Prompt) -> tuple[Message, ...]:
    return (Message("user", prompt),) if isinstance(prompt, str) else prompt
