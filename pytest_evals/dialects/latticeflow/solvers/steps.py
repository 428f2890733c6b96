"""Work that asks models in between, written down as a generator.

A generator yields what it wants to know, and is sent the responses. Nothing of it lives
from one round to the next: it is run again from its beginning with all that was
answered so far (:func:`replayed`), so that it must not depend on anything else.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from pytest_evals.core.dialogue import FollowUp, Turn
from pytest_evals.core.request import Response
from pytest_evals.errors import DocumentError

__all__ = ["Asks", "Done", "Steps", "replayed", "together"]

T = TypeVar("T")

Asks = Sequence[FollowUp]
Steps = Generator[Asks, Sequence[Response], T]
"""Yields what it asks, is sent one response each, returns what it has found."""


@dataclass(frozen=True, slots=True)
class Done(Generic[T]):
    """What steps have found."""

    value: T


def replayed(steps: Steps[T], turns: Sequence[Turn]) -> Done[T] | tuple[FollowUp, ...]:
    """What the steps have found, or what they ask next.

    Args:
        steps: From their beginning.
        turns: All that was asked and answered, in any order within a round.

    Raises:
        DocumentError: Whatever the steps raise; or they ask something else than they
            did before.
    """
    left = list(turns)
    try:
        asked = next(steps)
        while True:
            if asked and not left:
                return tuple(asked)
            asked = steps.send(_answers(asked, left))
    except StopIteration as end:
        return Done(end.value)
    finally:
        steps.close()


def _answers(asked: Asks, left: list[Turn]) -> list[Response]:
    """The responses of a round, which are taken away from those that are left."""
    found = []
    for one in asked:
        place = next((n for n, turn in enumerate(left) if turn.asked == one), None)
        if place is None:
            raise DocumentError(
                "asked again, this asks something else than before; snippets must not "
                "depend on time or chance"
            )
        found.append(left.pop(place).response)
    return found


def together(several: Sequence[Steps[T]]) -> Steps[list[T]]:
    """Several of them side by side: each round is one of all that are not done."""
    found: dict[int, T] = {}
    waiting: dict[int, Asks] = {}
    try:
        for n, steps in enumerate(several):
            _go_on(n, steps, None, found, waiting)
        while waiting:
            order = sorted(waiting)
            answers = list((yield [one for n in order for one in waiting[n]]))
            for n in order:
                own, answers = answers[: len(waiting[n])], answers[len(waiting[n]) :]
                _go_on(n, several[n], own, found, waiting)
    finally:
        for steps in several:
            steps.close()
    return [found[n] for n in range(len(several))]


def _go_on(
    n: int,
    steps: Steps[T],
    answers: Sequence[Response] | None,
    found: dict[int, T],
    waiting: dict[int, Asks],
) -> None:
    """Let one of several go on until it asks again or is done; both dicts change."""
    try:
        waiting[n] = next(steps) if answers is None else steps.send(answers)
    except StopIteration as end:
        waiting.pop(n, None)
        found[n] = end.value
