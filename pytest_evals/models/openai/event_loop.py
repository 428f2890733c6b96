"""An event loop in a thread of its own, so that servers are asked while pytest scores.

What it is given runs side by side and comes out as it is done. Knows nothing of models.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")
LOOK_S = 0.5
"""Seconds between two looks at Ctrl-C where the system does not interrupt a wait."""
CLOSE_S = 10.0


class BackgroundLoop:
    """A loop that runs until it is closed."""

    def __init__(self) -> None:
        """Start the thread."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="evals-openai", daemon=True
        )
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """What a coroutine gives; whoever waits may be interrupted, which ends it."""
        (found,) = self.stream([lambda: coroutine], 1)
        return found

    def stream(
        self, work: Sequence[Callable[[], Awaitable[T]]], width: int
    ) -> Iterator[T]:
        """The results, in the order in which they are done.

        Whoever stops to listen, by closing the iterator or by Ctrl-C, ends the work.

        Args:
            work: What is to be done; each is begun in its turn.
            width: How many at once.

        Raises:
            BaseException: The first one that was raised, once; the rest is ended.
        """
        found: SimpleQueue[T | _End] = SimpleQueue()
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

    def close(self, last: Callable[[], Awaitable[None]]) -> None:
        """End what runs, do a last thing, and end the thread."""
        if not self._thread.is_alive():
            return
        done = asyncio.run_coroutine_threadsafe(_end(last), self._loop)
        try:
            done.result(timeout=CLOSE_S)
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(timeout=CLOSE_S)
            if not self._thread.is_alive():
                self._loop.close()


class _End:
    """After the last result."""


async def _all(
    work: Sequence[Callable[[], Awaitable[T]]], width: int, give: Callable[[T], None]
) -> None:
    left = iter(work)

    async def take_turns() -> None:
        for one in left:
            give(await one())

    tasks = [asyncio.create_task(take_turns()) for _ in range(min(width, len(work)))]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _end(last: Callable[[], Awaitable[None]]) -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await last()
