"""Event loop in a background thread, so that requests run while pytest scores."""

from __future__ import annotations

import asyncio
import threading
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

from pytest_evals.core.model import Model
from pytest_evals.core.request import Request, Response

T = TypeVar("T")
LOOK_S = 0.5
"""Polling interval for Ctrl-C in seconds, for systems that do not interrupt a wait."""
CLOSE_S = 10.0
_ENDING: ContextVar[asyncio.Event | None] = ContextVar("ending", default=None)
"""Set as soon as the stream starts nothing more: after an error, or at a stop."""


class StreamEndedError(Exception):
    """The stream starts nothing more."""


async def pause(seconds: float) -> None:
    """Sleep, but not while the stream ends."""
    ending = _ENDING.get()
    if ending is None:
        await asyncio.sleep(seconds)
        return
    if seconds > 0 and not ending.is_set():
        with suppress(TimeoutError):
            await asyncio.wait_for(ending.wait(), seconds)
    if ending.is_set():
        raise StreamEndedError


class _End:
    """End of the results."""


class _Stream(Generic[T]):
    """Coroutines that run side by side, at most ``width``, and their results;
    ``on_result`` is called with each before it is among those ``found``."""

    def __init__(
        self,
        work: Sequence[Callable[[], Awaitable[T]]],
        width: int,
        on_result: Callable[[T], None] | None,
    ) -> None:
        self._work, self._width = work, width
        self.on_result = on_result
        self.found = SimpleQueue[T | _End]()
        self.ending = asyncio.Event()  # Set to start no more coroutines
        self.n_running = 0
        self._failed: list[Exception] = []

    async def run(self) -> None:
        """Run the coroutines; if one raises an error, those that were started end
        before it is raised: replies to the requests in flight may be paid for."""
        _ENDING.set(self.ending)
        left = iter(self._work)
        tasks = [
            asyncio.create_task(self._take_turns(left))
            for _ in range(min(self._width, len(self._work)))
        ]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if self._failed:
            raise self._failed[0]

    async def _take_turns(self, left: Iterator[Callable[[], Awaitable[T]]]) -> None:
        for one in left:
            if self.ending.is_set():
                return
            self.n_running += 1
            try:
                result = await one()
                if self.on_result is not None:
                    self.on_result(result)
                self.found.put(result)
            except Exception as error:  # noqa: BLE001
                self._failed.append(error)
                self.ending.set()
            finally:
                self.n_running -= 1


class BackgroundLoop:
    """An event loop that runs from its first use until it is closed."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._streams: dict[_Stream[Any], Future[None]] = {}

    @property
    def is_running(self) -> bool:
        """Whether it was used and not closed."""
        return self._thread is not None

    def _running(self) -> asyncio.AbstractEventLoop:
        if self._thread is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(
                target=self._loop.run_forever, name="evals-requests", daemon=True
            )
            self._thread.start()
        return self._loop

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine; an interrupt cancels it."""
        (found,) = self.stream([lambda: coroutine], 1)
        return found

    def start(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine, without waiting for its result."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._running())

    def stream(
        self,
        work: Sequence[Callable[[], Awaitable[T]]],
        width: int,
        on_result: Callable[[T], None] | None = None,
    ) -> Iterator[T]:
        """The results, in the order in which they finish.

        When the iterator is closed, or at Ctrl-C, no more coroutines are started, and
        those that were started no longer pause (:func:`pause`). They are cancelled if
        nobody would get their results: without ``on_result``, which is called with each
        result in the thread of the loop, before it is yielded. The first exception is
        raised after the coroutines that had been started; the others are not started.
        """
        stream = _Stream(work, width, on_result)
        future = asyncio.run_coroutine_threadsafe(stream.run(), self._running())
        self._streams = {s: f for s, f in self._streams.items() if not f.done()}
        self._streams[stream] = future
        future.add_done_callback(lambda _: stream.found.put(_End()))
        try:
            while True:
                try:
                    result = stream.found.get(timeout=LOOK_S)
                except Empty:
                    continue
                if isinstance(result, _End):
                    break
                yield result
            future.result()
        finally:
            self._end(stream, future)

    def _end(self, stream: _Stream[Any], future: Future[None]) -> None:
        if stream.on_result is None:
            future.cancel()
        elif not future.done():
            self._loop.call_soon_threadsafe(stream.ending.set)

    def stop(self) -> None:
        """Start no more coroutines; returns at once."""
        for stream, future in self._streams.items():
            self._end(stream, future)

    def wait(self, limit_s: float) -> int:
        """Wait for the coroutines that were started, for at most ``limit_s`` seconds;
        return how many are left."""
        wait(self._streams.values(), limit_s)
        return sum(s.n_running for s, f in self._streams.items() if not f.done())

    def close(
        self, last: Callable[[], Awaitable[None]], limit_s: float = CLOSE_S
    ) -> None:
        """Cancel running tasks, run ``last``, and stop the thread; ``TimeoutError`` if
        they take longer than ``limit_s`` seconds."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        loop = self._loop
        done = asyncio.run_coroutine_threadsafe(_end(last), loop)
        try:
            done.result(timeout=limit_s)
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(timeout=limit_s)
            if not thread.is_alive():
                loop.close()


class BackgroundModel(Model):
    """A model whose requests run in an event loop in a background thread. Their
    responses are passed to ``on_response`` there."""

    def __init__(self) -> None:
        self._background = BackgroundLoop()

    def _answers(
        self, requests: Sequence[Request], order: Iterable[int], width: int
    ) -> Iterator[tuple[int, Response]]:
        """Send requests in an order, up to ``width`` at a time."""
        on_response = self.on_response

        def received(answer: tuple[int, Response]) -> None:
            if on_response is not None:
                on_response(requests[answer[0]], answer[1])

        return self._background.stream(
            [partial(self._one, i, requests[i]) for i in order],
            width,
            None if on_response is None else received,
        )

    @abstractmethod
    async def _one(self, position: int, request: Request) -> tuple[int, Response]: ...

    def stop_sending(self) -> None:
        """Send no further requests. Those in flight are cancelled if their responses
        are not stored."""
        self._background.stop()

    def wait_for_sent(self, limit_s: float, /) -> int:
        """Wait for the requests in flight."""
        return self._background.wait(limit_s)


async def _end(last: Callable[[], Awaitable[None]]) -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await last()
