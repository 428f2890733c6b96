"""The requests that documents can take at most: their dialogues, with replies that lead
to as many further requests as possible."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

from pytest_evals.core.dialogue import Ask, ReadAsk
from pytest_evals.core.record import Record
from pytest_evals.core.request import Generate, Request, Response, is_embedding
from pytest_evals.core.task import MOST_REPEATS, Task
from pytest_evals.errors import DocumentError

TOKEN = "abcd"  # a token of an answer, at 4 bytes per token
_LONGEST = 8_192  # tokens of an answer, of which later requests contain a copy
_MOST = 100_000  # requests of one document
_READABLE = json.dumps(
    {
        "claims": [TOKEN * 4_000],
        "verdicts": [{"verdict": True}],
        "pass": True,
        "grade": 1,
        "better": "1",
    }
)
"""A reply that each judge reads in its own way, or cannot read."""


def later_requests(record: Record, task: Task) -> list[Ask]:
    """The requests of a document that follow its first ones, at most. ``record``: with
    its first requests, not answered yet. Raises ``ValueError`` if the task does not
    bound its requests."""
    if task.longest is None:
        raise ValueError(task.name)
    answers = tuple(map(_long, record.requests))
    rounds = _rounds(replace(record, responses=answers), task)
    if not record.requests:
        next(rounds, None)  # it is known before anything is answered
    return [one for asks in rounds for one in asks]


def _rounds(record: Record, task: Task) -> Iterator[list[Ask]]:
    assert task.longest is not None
    dialogue, n = task.longest(record), 0
    try:
        asks = next(dialogue)
        while n < _MOST:
            yield [*asks]
            n += len(asks)
            asks = dialogue.send([_reply(one) for one in asks])
    except (StopIteration, DocumentError):
        return
    finally:
        dialogue.close()


def _reply(ask: Ask) -> Response:
    """The reply after which most requests follow: the first one cannot be read."""
    request = ask.request
    if is_embedding(request):
        return Response(data=[1.0])
    if not isinstance(ask, ReadAsk) or not isinstance(request, Generate):
        return _long(request)
    is_first = len(request.prompt) == 2 and request.repeat < MOST_REPEATS
    if ask.model == "user":
        return Response() if request.repeat < MOST_REPEATS else _long(request)
    return _long(request) if is_first else Response(text=_READABLE)


def _long(request: Request) -> Response:
    if not isinstance(request, Generate):
        return Response(logprob=-1.0, greedy=False)
    return Response(text=TOKEN * min(request.max_tokens, _LONGEST), finish="length")
