"""Conversations: the user's messages are fixed, and the model answers each with the
whole history."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_evals.core.case import Case
from pytest_evals.core.dialogue import Ask, Dialogue, Exchange
from pytest_evals.core.finite import is_finite
from pytest_evals.core.request import (
    PLACED_IMAGES,
    Generate,
    Message,
    Request,
    Response,
)
from pytest_evals.core.transcript import transcript
from pytest_evals.errors import DocumentError


class ChatHistory:
    """The messages between a user and the tested model so far."""

    def __init__(self, first: Request, model: str, *, is_open: bool = True) -> None:
        """Begin with the messages of the first request.

        Args:
            first: The request of the first turn.
            model: Name of the tested model in :class:`Ask`.
            is_open: Whether its last message is the user's first one; it is left out
                otherwise.

        Raises:
            DocumentError: The request is not a chat.
        """
        if not isinstance(first, Generate) or isinstance(first.prompt, str):
            raise DocumentError("the turns of a case need generated answers to a chat")
        self.first, self._model = first, model
        self._history = [*first.prompt]
        self.opening = self._history[-1].content
        """The user's first message, if it is fixed."""
        if not is_open:
            self._history.pop()
        self._images = dict(first.options).get(PLACED_IMAGES, ())
        self._exchanges: list[Exchange] = []

    @property
    def answers(self) -> list[Response]:
        """The answers so far."""
        return [one.response for one in self._exchanges]

    def _request(self) -> Generate:
        request = replace(self.first, prompt=tuple(self._history))
        if not self._images:
            return request
        images = tuple(one for one in self._images if one[0] < len(self._history))
        options = {**dict(request.options), PLACED_IMAGES: images}
        if not images:
            del options[PLACED_IMAGES]
        return replace(request, options=tuple(options.items()))

    def turn(self, text: str | None, number: int) -> Dialogue[None]:
        """Send a message of the user with the history before it. ``text``: ``None`` for
        the opening.

        Raises:
            DocumentError: The answer is missing; the message names the turn.
        """
        if text is not None:
            self._history.append(Message("user", text))
        request = self._request()
        (answer,) = yield [Ask(self._model, request)]
        if answer.error:
            raise DocumentError(f"turn {number}: {answer.error}")
        self._history.append(Message("assistant", answer.text))
        self._exchanges.append(Exchange(self._model, request, answer))

    def combined(self) -> Response:
        """The last answer, with the transcript in ``messages``, the calls and contexts
        of all turns, and the sums of tokens, seconds, costs and counts of usage."""
        return _combined(self.answers, transcript(self._exchanges))


def conversation(case: Case, first: Request, model: str) -> Dialogue[Response]:
    """Ask all turns of a case, one after the other; see :class:`ChatHistory`.

    Raises:
        DocumentError: A turn has no answer; the message names it.
    """
    talk = ChatHistory(first, model)
    for number, turn in enumerate(case.turns, 1):
        yield from talk.turn(None if number == 1 else turn.user, number)
    return talk.combined()


def _combined(
    answers: Sequence[Response], messages: tuple[Mapping[str, Any], ...]
) -> Response:
    costs = [one.cost for one in answers]
    usage = Counter[str]()
    for one in answers:
        usage.update({k: n for k, n in (one.usage or {}).items() if is_finite(n)})
    return replace(
        answers[-1],
        n_prompt_tokens=sum(one.n_prompt_tokens for one in answers),
        n_tokens=sum(one.n_tokens for one in answers),
        elapsed_s=sum(one.elapsed_s for one in answers),
        latency_s=sum(one.latency_s for one in answers),
        cost=None if None in costs else sum(one for one in costs if one is not None),
        usage=dict(usage) or None,
        calls=tuple(call for one in answers for call in one.calls),
        contexts=tuple(text for one in answers for text in one.contexts),
        messages=messages,
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
