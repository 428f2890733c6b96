"""A stream that is worked off in a thread of its own, while whoever reads it does other
things: a device need not wait until documents are rendered and scored.

What comes out, and in which order, is the same as without the thread. Nothing but the
stream runs in it.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from queue import SimpleQueue
from threading import Event, Thread
from typing import Generic, TypeVar

T = TypeVar("T")


class _End:
    """Nothing more comes; ``error`` says why, unless all has come."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error


class Prefetch(Generic[T]):
    """An iterator over a stream whose next items are made meanwhile.

    What the stream raises is raised to the reader, after the items before it.
    """

    def __init__(self, stream: Iterator[T]) -> None:
        """Begin at once; the stream must not be touched by anybody else any more."""
        self._items: SimpleQueue[T | _End] = SimpleQueue()
        stop = Event()
        thread = Thread(
            target=_work,
            args=(stream, self._items, stop),
            name="evals-model",
            daemon=True,
        )
        # Whoever forgets the iterator, or ends the process, does not leave the thread
        # behind: it is waited for, as long as the item takes that is being made.
        self._end = weakref.finalize(self, _end, stop, thread)
        thread.start()

    def __iter__(self) -> Prefetch[T]:
        """Itself."""
        return self

    def __next__(self) -> T:
        """The next item, once it is there."""
        item = self._items.get()
        if not isinstance(item, _End):
            return item
        self._items.put(_End())
        if item.error is not None:
            raise item.error
        raise StopIteration

    def close(self) -> None:
        """Stop after the item that is being made, and wait for that."""
        self._end()


def _work(stream: Iterator[T], items: SimpleQueue[T | _End], stop: Event) -> None:
    error: BaseException | None = None
    try:
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
