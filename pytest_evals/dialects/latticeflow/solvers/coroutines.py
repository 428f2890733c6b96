"""The adapter between a coroutine that awaits a model and a dialogue.

The coroutine runs in an event loop of its own, so that ``asyncio.gather`` and the like
do what they do everywhere. When that loop would wait while answers are lacking, all
that is asked so far is one round; time that a model takes passes for no timer. Nor does
time that the code itself takes: its clock goes on only while the loop waits, so that
timers go off in the same order in every run.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from time import monotonic
from typing import Any, TypeVar

from pytest_evals.core.dialogue import Ask, Dialogue, Exchange, resumed
from pytest_evals.core.request import Response
from pytest_evals.dialects.latticeflow.prompts.text_objects import Structured
from pytest_evals.dialects.latticeflow.snippets.event_loop import no_running_loop

T = TypeVar("T")

Asker = Callable[[Ask], "asyncio.Future[Response]"]
"""What a coroutine asks by: the response comes to whoever awaits it."""


def restarted(
    start: Callable[[], Dialogue[T]], exchanges: Sequence[Exchange]
) -> Dialogue[T]:
    """:func:`resumed`, of a dialogue that starts again in each round: an event loop
    holds files, so that none may be open for each of thousands of waiting samples."""
    known = [*exchanges]
    while True:
        again = resumed(start(), known)
        try:
            asks = next(again)
        except StopIteration as end:
            result: T = end.value
            return result
        again.close()
        responses = yield asks
        for ask, response in zip(asks, responses, strict=True):
            known.append(Exchange(*ask, response))


def driven(
    start: Callable[[Asker], Coroutine[Any, Any, Any]],
    guarded: Callable[[], AbstractContextManager[None]],
) -> Dialogue[Any]:
    """What a coroutine returns.

    Args:
        start: Makes it, of what it asks by.
        guarded: A block in which the coroutine runs.

    Raises:
        BaseException: Whatever the coroutine raises, as the block has it.
    """
    selector = _Selector()
    loop = _Loop(selector)
    waiting = selector.waiting

    def ask(one: Ask) -> asyncio.Future[Response]:
        future = loop.create_future()
        waiting.append((one, future))
        return future

    task: asyncio.Task[Any] | None = None
    try:
        while True:
            with guarded(), suppress(_IdleError):
                task = task or loop.create_task(start(ask))
                return loop.run_until_complete(task)
            asked = [pair for pair in waiting if not pair[1].done()]
            waiting.clear()
            responses = yield [one for one, _ in asked]
            for (_, future), response in zip(asked, responses, strict=True):
                future.set_result(response)
    finally:
        waiting.clear()
        with no_running_loop():
            _end(loop)


class _Loop(asyncio.SelectorEventLoop):
    """A loop with the clock of its selector."""

    def __init__(self, selector: _Selector) -> None:
        self._clock = selector
        super().__init__(selector)

    def time(self) -> float:
        """Seconds that it has waited."""
        return self._clock.waited_s


class Asking(Structured, Coroutine[Any, Any, Any]):
    """A coroutine that is made when somebody awaits it. One that nobody does, because
    the time was over just then, is no fault that Python would warn of."""

    def __init__(self, make: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """Nothing is made yet."""
        self._make = make
        self._made: Coroutine[Any, Any, Any] | None = None

    def _begun(self) -> Coroutine[Any, Any, Any]:
        if self._made is None:
            self._made = self._make()
        return self._made

    def send(self, value: Any, /) -> Any:
        """Go on."""
        return self._begun().send(value)

    def throw(self, *error: Any) -> Any:
        """Go on with an error."""
        return self._begun().throw(*error)

    def close(self) -> None:
        """Go on no longer."""
        if self._made is not None:
            self._made.close()

    def __await__(self) -> Any:
        """Go on until there is a result."""
        return self._begun().__await__()


class _IdleError(BaseException):
    """Nothing can go on."""


class _Selector(selectors.DefaultSelector):
    """Notices when a loop would wait, for whatever, while answers are lacking.

    ``waiting`` is what was asked and not answered yet; ``waited_s`` is how long the
    loop has waited, in seconds.
    """

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[tuple[Ask, asyncio.Future[Response]]] = []
        self.waited_s = 0.0

    def select(self, timeout: float | None = None) -> Any:
        """Wait for timers, files and threads, unless answers are lacking."""
        start = monotonic()
        found = super().select(0 if self.waiting else timeout)
        if self.waiting and not found and timeout != 0:
            raise _IdleError
        if timeout is None or (found and timeout > 0):
            self.waited_s += monotonic() - start
        else:
            self.waited_s += max(timeout, 0)
        return found


def _end(loop: asyncio.AbstractEventLoop) -> None:
    """End what is left, without a word."""
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    loop.run_until_complete(_ended(loop, left))
    loop.close()


async def _ended(
    loop: asyncio.AbstractEventLoop, tasks: Iterable[asyncio.Task[Any]]
) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)
    await loop.shutdown_asyncgens()
    await loop.shutdown_default_executor()
