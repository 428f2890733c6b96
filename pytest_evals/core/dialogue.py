"""Dialogues with models about a document: a generator yields requests and is sent
responses.

Judges, multi-turn chats and solvers are dialogues. ``run.rounds`` runs all open
dialogues together: each round is one batch per model.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from pytest_evals.core.model import ModelLike
from pytest_evals.core.request import Request, Response
from pytest_evals.errors import DocumentError

OWN_MODEL = "model"
"""Name in :class:`Ask` of the model that an eval itself names."""
USER = "user"
"""Name in :class:`Ask` of the model that writes a simulated user's messages."""
TESTED = ("", OWN_MODEL)
"""Names in :class:`Ask` of the tested model."""
JUDGE = ""
"""As a :data:`ModelSource`: the judge of the session (``--evals-judge``)."""

ModelSource = str | Callable[[], ModelLike]
"""Where an auxiliary model of a task comes from: a spec as for ``--model``,
:data:`JUDGE`, or a function that opens it. Equal sources are one model, opened once."""

T = TypeVar("T")


class Ask(NamedTuple):
    """A request and the model that it is sent to. ``model``: empty for the tested
    model, else a name in the task's ``models``."""

    model: str
    request: Request


class ReadAsk(Ask):
    """An :class:`Ask` with a function that reads its response. A response that cannot
    be read is neither stored nor taken from the store."""

    read: Callable[[Response], Any]

    def __new__(
        cls, model: str, request: Request, read: Callable[[Response], Any]
    ) -> ReadAsk:
        """Create it. ``read`` raises ``DocumentError`` for such a response."""
        ask = super().__new__(cls, model, request)
        ask.read = read
        return ask


class Exchange(NamedTuple):
    """An :class:`Ask` and its response."""

    model: str
    request: Request
    response: Response

    @property
    def is_tested(self) -> bool:
        """Whether the model is the one under test: the session's or the eval's."""
        return self.model in TESTED

    @property
    def text(self) -> str:
        """The text of the response.

        Raises:
            DocumentError: The response is an error.
        """
        return self.response.raise_for_error().text


Dialogue = Generator[Sequence[Ask], Sequence[Response], T]
"""Yields the requests of a round, is sent their responses in the same order, returns
its result. A response may contain an error, see ``Response.raise_for_error``."""


def together(dialogues: Sequence[Dialogue[T]]) -> Dialogue[list[T]]:
    """Run dialogues concurrently: a round has the requests of all open dialogues."""
    results: dict[int, T] = {}
    asks: dict[int, Sequence[Ask]] = dict.fromkeys(range(len(dialogues)), ())
    sent: dict[int, Any] = dict.fromkeys(asks)  # None starts a generator
    try:
        while True:
            for n, responses in sent.items():
                _advance(n, dialogues[n], responses, asks, results)
            if not asks:
                return [results[n] for n in range(len(dialogues))]
            left = iter((yield [one for requests in asks.values() for one in requests]))
            sent = {n: [*islice(left, len(requests))] for n, requests in asks.items()}
    finally:
        for dialogue in dialogues:
            dialogue.close()


def _advance(
    n: int,
    dialogue: Dialogue[T],
    responses: Any,
    asks: dict[int, Sequence[Ask]],
    results: dict[int, T],
) -> None:
    """Run a dialogue until its next round or its end; both dicts change."""
    try:
        asks[n] = dialogue.send(responses)
    except StopIteration as end:
        del asks[n]
        results[n] = end.value


def resumed(
    dialogue: Dialogue[T], exchanges: Sequence[Exchange], *, by_order: bool = False
) -> Dialogue[T]:
    """Answer the first rounds of a dialogue from exchanges; yield the later rounds.

    Args:
        dialogue: Not started yet.
        by_order: Match requests and exchanges by order only. By default they must be
            equal, and may be in any order within a round.

    Raises:
        DocumentError: A request is not among the exchanges; or the dialogue raises it.
    """
    left = list(exchanges)
    try:
        asks = next(dialogue)
        while True:
            is_recorded = left or not asks
            responses = _recorded(asks, left, by_order) if is_recorded else (yield asks)
            asks = dialogue.send(responses)
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        dialogue.close()


def _recorded(
    asks: Sequence[Ask], left: list[Exchange], by_order: bool
) -> list[Response]:
    """The responses to a round; their exchanges are removed from those left."""
    responses = []
    for one in asks:
        matches = (n for n, past in enumerate(left) if by_order or past[:2] == one)
        place = next(matches, None)
        if place is None:
            raise DocumentError(
                "the snippet sends other requests than in the recorded run; "
                "make it independent of time and random numbers"
            )
        responses.append(left.pop(place).response)
    return responses


def replayed(
    dialogue: Dialogue[T], exchanges: Sequence[Exchange], *, by_order: bool = False
) -> T:
    """The result of a dialogue from its recorded exchanges; see :func:`resumed`. Raises
    ``DocumentError`` if the dialogue sends other requests, or more of them."""
    replay = resumed(dialogue, exchanges, by_order=by_order)
    try:
        next(replay)
    except StopIteration as end:
        result: T = end.value
        return result
    replay.close()
    raise DocumentError(
        "a solver or scorer sends more requests than in the recorded run"
    )
