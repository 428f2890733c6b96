"""Conversations: the user's messages are fixed, and the model answers each with the
whole history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_evals.core.case import Case
from pytest_evals.core.dialogue import Ask, Dialogue
from pytest_evals.core.request import Generate, Message, Request, Response
from pytest_evals.errors import DocumentError

_KEPT = ("data", "calls", "contexts")
"""Fields of the answer to a turn that its message in the transcript has."""


def conversation(case: Case, first: Request, model: str) -> Dialogue[Response]:
    """Ask all turns of a case, one after the other.

    The result has the text of the last answer, the transcript in ``messages``, the
    calls and contexts of all turns, and the sums of tokens, seconds and costs.

    Args:
        first: The request of the first turn.
        model: Name of the tested model in :class:`Ask`.

    Raises:
        DocumentError: A turn has no answer; the message names it.
    """
    if not isinstance(first, Generate) or isinstance(first.prompt, str):
        raise DocumentError("the turns of a case need generated answers to a chat")
    history = [*first.prompt]
    transcript: list[Mapping[str, Any]] = [one._asdict() for one in history]
    answers = list[Response]()
    for number, turn in enumerate(case.turns, 1):
        if answers:
            history.append(Message("user", turn.user))
            transcript.append(history[-1]._asdict())
        (answer,) = yield [Ask(model, replace(first, prompt=tuple(history)))]
        if answer.error:
            raise DocumentError(f"turn {number}: {answer.error}")
        history.append(Message("assistant", answer.text))
        more = {name: one for name, one in answer.returned.items() if name in _KEPT}
        transcript.append({**history[-1]._asdict(), **more})
        answers.append(answer)
    return _combined(answers, transcript)


def _combined(
    answers: Sequence[Response], transcript: Sequence[Mapping[str, Any]]
) -> Response:
    costs = [one.cost for one in answers]
    return replace(
        answers[-1],
        n_prompt_tokens=sum(one.n_prompt_tokens for one in answers),
        n_tokens=sum(one.n_tokens for one in answers),
        elapsed_s=sum(one.elapsed_s for one in answers),
        latency_s=sum(one.latency_s for one in answers),
        cost=None if None in costs else sum(one for one in costs if one is not None),
        calls=tuple(call for one in answers for call in one.calls),
        contexts=tuple(text for one in answers for text in one.contexts),
        messages=tuple(transcript),
    )


def answers_of(response: Response, case: Case) -> list[Response]:
    """The answer to each turn of a case, from the transcript of its conversation."""
    answers = [one for one in response.messages if one["role"] == "assistant"]
    return [
        Response(
            text=one["content"],
            data=one.get("data"),
            calls=tuple(one.get("calls", ())),
            contexts=tuple(one.get("contexts", ())),
        )
        for one in answers[-len(case.turns) :]
    ]
