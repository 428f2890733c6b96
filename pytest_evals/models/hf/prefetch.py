"""Iterator that produces items in a background thread, so that the device does not wait
while documents are rendered and scored.

Items and their order are the same as without the thread.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from queue import SimpleQueue
from threading import Event, Thread
from typing import Generic, TypeVar

T = TypeVar("T")


class _End:
    """End of the stream; ``error`` is the exception that ended it, if any."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error


class Prefetch(Generic[T]):
    """Iterator whose items are produced ahead in a thread.

    An exception of the stream is raised to the consumer after the items before it.
    """

    def __init__(
        self,
        stream: Iterator[T],
        settings: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """Start the thread, which becomes the only consumer of the stream; the context
        that ``settings`` returns is active in it."""
        self._items: SimpleQueue[T | _End] = SimpleQueue()
        stop = Event()
        thread = Thread(
            target=_work,
            args=(stream, self._items, stop, settings),
            name="evals-model",
            daemon=True,
        )
        # Whoever forgets the iterator, or ends the process, does not leave the thread
        # behind: it is waited for, as long as the item takes that is being made.
        self._end = weakref.finalize(self, _end, stop, thread)
        thread.start()

    def __iter__(self) -> Prefetch[T]:
        return self

    def __next__(self) -> T:
        """The next item; blocks until it is available."""
        item = self._items.get()
        if not isinstance(item, _End):
            return item
        self._items.put(_End())
        if item.error is not None:
            raise item.error
        raise StopIteration

    def close(self) -> None:
        """Stop the thread and wait for the item in progress."""
        self._end()


def _work(
    stream: Iterator[T],
    items: SimpleQueue[T | _End],
    stop: Event,
    settings: Callable[[], AbstractContextManager[None]],
) -> None:
    error: BaseException | None = None
    try:
        with settings():
            for item in stream:
                items.put(item)
                if stop.is_set():
                    break
    # It is raised where the items are read.
    except BaseException as raised:  # noqa: BLE001
        error = raised
    items.put(_End(error))


def _end(stop: Event, thread: Thread) -> None:
    stop.set()
    thread.join()
