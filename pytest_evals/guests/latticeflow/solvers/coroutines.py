"""Adapter from a coroutine that awaits a model to a dialogue.

The coroutine runs in a separate event loop, so that ``asyncio.gather`` and similar
functions work. When that loop would block while responses are missing, all pending
requests form one round. Neither the model's response time nor the code's own running
time advances timers: the loop's clock only advances while the loop waits, so that
timers fire in the same order in every run.
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
from pytest_evals.guests.latticeflow.prompts.items import Structured
from pytest_evals.guests.latticeflow.snippets.guard import no_running_loop

T = TypeVar("T")

SendRequest = Callable[[Ask], "asyncio.Future[Response]"]
"""Sends a request; the response resolves the future."""


def resume_from_start(
    start: Callable[[], Dialogue[T]], exchanges: Sequence[Exchange]
) -> Dialogue[T]:
    """Resume a dialogue that is started again in each round. An event loop holds file
    descriptors, so none may stay open for each of thousands of waiting samples."""
    known = [*exchanges]
    while True:
        dialogue = resumed(start(), known)
        try:
            asks = next(dialogue)
        except StopIteration as end:
            result: T = end.value
            return result
        dialogue.close()
        responses = yield asks
        for ask, response in zip(asks, responses, strict=True):
            known.append(Exchange(*ask, response))


def drive(
    start: Callable[[SendRequest], Coroutine[Any, Any, Any]],
    guarded: Callable[[], AbstractContextManager[None]],
) -> Dialogue[Any]:
    """Run the coroutine that ``start`` creates from a function which sends requests,
    and return its result. ``guarded`` blocks around it may convert exceptions."""
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
            pending = [pair for pair in waiting if not pair[1].done()]
            waiting.clear()
            responses = yield [one for one, _ in pending]
            for (_, future), response in zip(pending, responses, strict=True):
                future.set_result(response)
    finally:
        waiting.clear()
        with no_running_loop():
            _close_loop(loop)


class LazyCoroutine(Structured, Coroutine[Any, Any, Any]):
    """A coroutine that is created when it is first awaited. If a time limit prevents
    that, Python does not warn about a coroutine that was never awaited."""

    def __init__(self, make: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        self._make = make
        self._made: Coroutine[Any, Any, Any] | None = None

    def _coroutine(self) -> Coroutine[Any, Any, Any]:
        if self._made is None:
            self._made = self._make()
        return self._made

    def send(self, value: Any, /) -> Any:
        """Resume."""
        return self._coroutine().send(value)

    def throw(self, *error: Any) -> Any:
        """Resume with an exception."""
        return self._coroutine().throw(*error)

    def close(self) -> None:
        """Close."""
        if self._made is not None:
            self._made.close()

    def __await__(self) -> Any:
        """Await the result."""
        return self._coroutine().__await__()


class _IdleError(BaseException):
    """No task can make progress."""


class _Selector(selectors.DefaultSelector):
    """Detects when a loop would block while responses are missing."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[tuple[Ask, asyncio.Future[Response]]] = []
        self.waited_s = 0.0  # time that the loop has waited

    def select(self, timeout: float | None = None) -> Any:
        """Wait for timers, files and threads, unless responses are missing."""
        start = monotonic()
        events = super().select(0 if self.waiting else timeout)
        if self.waiting and not events and timeout != 0:
            raise _IdleError
        if timeout is None or (events and timeout > 0):
            self.waited_s += monotonic() - start
        else:
            self.waited_s += max(timeout, 0)
        return events


class _Loop(asyncio.SelectorEventLoop):
    """An event loop whose clock is the time that its selector has waited."""

    def __init__(self, selector: _Selector) -> None:
        self._clock = selector
        super().__init__(selector)

    def time(self) -> float:
        """Return the seconds that it has waited."""
        return self._clock.waited_s


def _close_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel the remaining tasks and close the loop, silently."""
    remaining = asyncio.all_tasks(loop)
    for task in remaining:
        task.cancel()
    loop.run_until_complete(_shutdown(loop, remaining))
    loop.close()


async def _shutdown(
    loop: asyncio.AbstractEventLoop, tasks: Iterable[asyncio.Task[Any]]
) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)
    await loop.shutdown_asyncgens()
    await loop.shutdown_default_executor()
