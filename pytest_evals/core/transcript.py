"""Transcripts of conversations, and documents as rows of a data frame."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from pytest_evals.core.dialogue import TESTED, USER, Exchange
from pytest_evals.core.record import Record
from pytest_evals.core.request import PLACED_IMAGES, Generate, Message, Response
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
    tested, said = (_by_repeat(record, models) for models in (TESTED, (USER,)))
    for repeat, exchanges in tested.items():
        by_user = said.get(repeat, ())
        chats = [tuple(_messages(one)) for one in exchanges]
        is_growing = all(b[: len(a)] == a for a, b in pairwise(chats))
        if not is_growing or (len(exchanges) == 1 and not by_user):
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


def document_row(task: str, record: Record) -> dict[str, Any]:
    """The row of a document, with a column for each score, and for each field that the
    application returned in addition to its answer."""
    talk = next(conversations(record), None)
    answers = record.own_responses
    response = Response() if not answers else answers[-1 if talk else 0]
    asked = [one.request for one in record.exchanges if one.is_tested]
    more: dict[str, Any] = {"messages": talk.messages} if talk else {}
    if talk and talk.stop_reason:
        more["metadata"] = {"stop_reason": talk.stop_reason, "turns": talk.turns}
    return {
        "task": task,
        "id": record.doc.id,
        "index": record.index,
        "status": record.status.value,
        "correct": record.correct,
        "prompt": _prompt(record, [*record.requests, *asked]),
        "target": record.doc.target_text,
        "response": response.text,
        "answer": next((one.answer for one in record.scores if one.answer), ""),
        "explanation": " ".join(one.explanation for one in record.scores).strip(),
        "row": dict(record.doc.row or {}),
        "error": record.error,
        **_returned(answers if talk else answers[:1]),
        **more,
        **{f"{one.metric},{one.filter}": one.value for one in record.scores},
    }


def _prompt(record: Record, requests: Sequence[Any]) -> Any:
    prompt = getattr(requests[0], "prompt", "") if requests else ""
    if isinstance(prompt, str):
        return prompt or record.doc.query
    return [{"role": one.role, "content": one.content} for one in prompt]


def _returned(answers: Sequence[Response]) -> dict[str, Any]:
    """What was returned with all answers: lists are joined, of others the last counts;
    with latency and cost, where known."""
    found: dict[str, Any] = {}
    for answer in answers:
        for name, value in answer.returned.items():
            is_list = isinstance(value, tuple)
            found[name] = (*found.get(name, ()), *value) if is_list else value
    latency_s = sum(one.latency_s for one in answers)
    costs = [one.cost for one in answers if one.cost is not None]
    found |= {"latency_s": latency_s} if latency_s else {}
    return found | ({"cost": sum(costs)} if costs else {})
