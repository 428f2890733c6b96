"""Threads that do not keep the process alive: a call of user code may never return."""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread


class DaemonThreads:
    """A pool of daemon threads. ``concurrent.futures`` would wait for its threads when
    Python exits."""

    def __init__(self, most: int) -> None:
        self._most, self._n = most, 0
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()

    def submit(self, call: Callable[[], None]) -> None:
        """Run a call, which raises nothing, in one of the threads."""
        self._calls.put(call)
        if self._n < self._most:
            self._n += 1
            Thread(target=self._work, name="evals-python", daemon=True).start()

    def close(self) -> None:
        """End the threads that are idle, and the others after their calls."""
        for _ in range(self._n):
            self._calls.put(None)
        self._n = 0

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
