"""Event loop in a background thread, so that requests run while pytest scores."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from contextvars import ContextVar
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")
LOOK_S = 0.5
"""Polling interval for Ctrl-C in seconds, for systems that do not interrupt a wait."""
CLOSE_S = 10.0
_ENDING: ContextVar[asyncio.Event | None] = ContextVar("ending", default=None)
"""Set as soon as a coroutine of the stream has raised an error."""


class StreamEndedError(Exception):
    """Another coroutine of the stream has raised an error."""


async def pause(seconds: float) -> None:
    """Sleep, but not while the stream ends.

    Raises:
        StreamEndedError: It ends.
    """
    ending = _ENDING.get()
    if ending is None:
        await asyncio.sleep(seconds)
        return
    if seconds > 0 and not ending.is_set():
        with suppress(TimeoutError):
            await asyncio.wait_for(ending.wait(), seconds)
    if ending.is_set():
        raise StreamEndedError


class BackgroundLoop:
    """An event loop that runs until it is closed."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="evals-requests", daemon=True
        )
        self._thread.start()
        self._results: SimpleQueue[Any] = SimpleQueue()

    @property
    def n_waiting(self) -> int:
        """Results of the current stream that were not yielded."""
        return self._results.qsize()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine; an interrupt cancels it."""
        (found,) = self.stream([lambda: coroutine], 1)
        return found

    def start(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine, without waiting for its result."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def stream(
        self, work: Sequence[Callable[[], Awaitable[T]]], width: int
    ) -> Iterator[T]:
        """The results, in the order in which they finish.

        Closing the iterator, or Ctrl-C, cancels the remaining work.

        Args:
            work: The coroutines, started in order.
            width: Maximum of concurrent coroutines.

        Raises:
            BaseException: The first one that was raised, after the coroutines that
                had been started, which do not pause any more (:func:`pause`); the
                others are not started.
        """
        self._results = found = SimpleQueue[T | _End]()
        future = asyncio.run_coroutine_threadsafe(
            _all(work, width, found.put), self._loop
        )
        future.add_done_callback(lambda _: found.put(_End()))
        try:
            while True:
                try:
                    result = found.get(timeout=LOOK_S)
                except Empty:
                    continue
                if isinstance(result, _End):
                    break
                yield result
            future.result()
        finally:
            future.cancel()
            if self._results is found:
                self._results = SimpleQueue()

    def close(
        self, last: Callable[[], Awaitable[None]], limit_s: float = CLOSE_S
    ) -> None:
        """Cancel running tasks, run ``last``, and stop the thread.

        Raises:
            TimeoutError: They take longer than ``limit_s`` seconds.
        """
        if not self._thread.is_alive():
            return
        done = asyncio.run_coroutine_threadsafe(_end(last), self._loop)
        try:
            done.result(timeout=limit_s)
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(timeout=limit_s)
            if not self._thread.is_alive():
                self._loop.close()


class _End:
    """End of the results."""


async def _all(
    work: Sequence[Callable[[], Awaitable[T]]], width: int, give: Callable[[T], None]
) -> None:
    left = iter(work)
    failed: list[Exception] = []
    ending = asyncio.Event()
    _ENDING.set(ending)

    async def take_turns() -> None:
        for one in left:
            if failed:
                return
            try:
                give(await one())
            except Exception as error:  # noqa: BLE001
                # Raised below: replies to the requests in flight may be paid for.
                failed.append(error)
                ending.set()

    tasks = [asyncio.create_task(take_turns()) for _ in range(min(width, len(work)))]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    if failed:
        raise failed[0]


async def _end(last: Callable[[], Awaitable[None]]) -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await last()
