"""Transcripts of conversations, from the exchanges of a document."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from pytest_evals.core.dialogue import TESTED, USER, Exchange
from pytest_evals.core.record import Record
from pytest_evals.core.request import PLACED_IMAGES, Generate, Message
from pytest_evals.core.task import MOST_REPEATS

KEPT = ("data", "calls", "contexts")
"""Fields of an answer that its message in a transcript has."""


class ChatTranscript(NamedTuple):
    """A conversation with the tested model."""

    messages: tuple[Mapping[str, Any], ...]  # the transcript
    turns: int  # number of answers
    stop_reason: str = ""
    """Why a simulated user stopped: ``stop``, ``max_turns``, or ``error``; empty if the
    user's messages are fixed."""


def conversations(record: Record) -> Iterator[ChatTranscript]:
    """Yield the conversations of a document: one for each repeat. A document whose
    requests do not depend on answers has none."""
    if record.requests or not record.exchanges:
        return
    own, said = (_by_repeat(record, models) for models in (TESTED, (USER,)))
    for repeat, exchanges in own.items():
        by_user = said.get(repeat, ())
        if not _is_growing(exchanges) or (len(exchanges) == 1 and not by_user):
            continue
        yield ChatTranscript(
            transcript(exchanges),
            sum(not one.response.error for one in exchanges),
            _stop_reason(record, by_user, exchanges[-1]),
        )


def _by_repeat(
    record: Record, models: Collection[str]
) -> Mapping[int, Sequence[Exchange]]:
    """The chats with some models, by repeat."""
    found = dict[int, list[Exchange]]()
    for one in record.exchanges:
        if one.model in models and isinstance(one.request, Generate) and _messages(one):
            found.setdefault(one.request.repeat % MOST_REPEATS, []).append(one)
    return found


def _is_growing(exchanges: Sequence[Exchange]) -> bool:
    """Whether each request contains the messages of the one before it."""
    chats = [tuple(_messages(one)) for one in exchanges]
    return all(b[: len(a)] == a for a, b in pairwise(chats))


def transcript(exchanges: Sequence[Exchange]) -> tuple[Mapping[str, Any], ...]:
    """The messages of a conversation: those of its last request, with the names of
    their images, and the answers, with the fields :data:`KEPT`."""
    last = exchanges[-1]
    assert isinstance(last.request, Generate)
    images = dict(last.request.options).get(PLACED_IMAGES, ())
    messages = list[dict[str, Any]]()
    for n, one in enumerate(_messages(last)):
        names = [image[4] or image[2][:8] for image in images if image[0] == n]
        messages.append(one._asdict() | ({"images": names} if names else {}))
    for exchange in exchanges:
        response = exchange.response
        if response.error:
            continue
        more = {name: one for name, one in response.returned.items() if name in KEPT}
        at = len(_messages(exchange))
        answer = {"role": "assistant", "content": response.text, **more}
        messages[at : at + 1] = [answer]
    return tuple(messages)


def _messages(exchange: Exchange) -> Sequence[Message]:
    prompt = getattr(exchange.request, "prompt", "")
    return () if isinstance(prompt, str) else prompt


def _stop_reason(record: Record, said: Sequence[Exchange], last: Exchange) -> str:
    """Why a simulated user stopped. A message with the mark was sent without it, or not
    at all."""
    if not said:
        return ""
    if record.error:
        return "error"
    sent = _messages(last)[-1].content
    return "max_turns" if said[-1].response.text.strip() == sent else "stop"
