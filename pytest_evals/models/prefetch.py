"""Responses that arrive in batches: each batch is stored before any of it is scored; a
background thread can produce the next ones meanwhile.

Items and their order are the same as without the thread.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from queue import SimpleQueue
from threading import Event, Thread
from typing import Generic, TypeVar

from pytest_evals.core.model import Model, OnResponse
from pytest_evals.core.request import Request, Response

T = TypeVar("T")
Answer = tuple[int, Response]
AnswerBatches = Iterator[Sequence[Answer]]
Settings = Callable[[], AbstractContextManager[None]]
"""Returns the context in which a thread runs."""


def received(
    requests: Sequence[Request],
    batches: Iterable[Sequence[Answer]],
    on_response: OnResponse | None,
) -> Generator[Sequence[Answer]]:
    """Yield batches of responses; ``on_response`` gets all of a batch before."""
    for batch in batches:
        for answer in batch:
            match answer:  # others violate the contract, which the caller reports
                case (int() as i, Response() as response) if 0 <= i < len(requests):
                    if on_response is not None:
                        on_response(requests[i], response)
        yield batch


class _End:
    """End of the stream; ``error`` is the exception that ended it, if any."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error


class Prefetch(Generic[T]):
    """Iterator whose items are produced ahead in a thread.

    An exception of the stream is raised to the consumer after the items before it.
    """

    def __init__(self, stream: Iterator[T], settings: Settings = nullcontext) -> None:
        """Start the thread, which becomes the only consumer of the stream; the context
        that ``settings`` returns is active in it."""
        self._items: SimpleQueue[T | _End] = SimpleQueue()
        stop = Event()
        given = (stream, self._items, stop, settings)
        thread = Thread(target=_work, args=given, name="evals-model", daemon=True)
        self._stop, self._thread = stop, thread
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

    def stop(self) -> None:
        """Stop the thread after the item in progress; returns at once."""
        self._stop.set()

    def wait(self, limit_s: float) -> None:
        """Wait for the end of the thread, for at most ``limit_s`` seconds."""
        self._thread.join(limit_s)

    def close(self) -> None:
        """Stop the thread and wait for the item in progress."""
        self._end()


class BatchModel(Model):
    """A model with responses in batches, from a background thread or on demand."""

    _running: Prefetch[Sequence[Answer]] | None = None

    def _answers(
        self,
        requests: Sequence[Request],
        batches: AnswerBatches,
        settings: Settings | None,
    ) -> Iterator[Answer]:
        """Yield the responses of batches one by one. ``settings``: of the background
        thread, ``None`` for no thread."""
        found = received(requests, batches, self.on_response)
        if settings is None:
            return _singly(found)
        self._running = Prefetch(found, settings)
        return _singly(self._running)

    def stop_sending(self) -> None:
        """Stop after the batch in progress."""
        if self._running is not None:
            self._running.stop()

    def wait_for_sent(self, limit_s: float, /) -> int:
        """Wait for the batch in progress."""
        if self._running is not None:
            self._running.wait(limit_s)
        return 0

    def close(self) -> None:
        """Stop the thread."""
        if self._running is not None:
            self._running.close()


def _singly(
    batches: Prefetch[Sequence[Answer]] | Generator[Sequence[Answer]],
) -> Iterator[Answer]:
    try:
        for batch in batches:
            yield from batch
    finally:
        batches.close()


def _work(
    stream: Iterator[T], items: SimpleQueue[T | _End], stop: Event, settings: Settings
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
