"""Writing in the background, so that a model never waits for a disk.

What is given is written a moment later, together with whatever came in between: a
process that is killed loses that moment. The thread starts with the first row and ends
with :meth:`BackgroundWriter.close`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")

PAUSE_S = 0.1
"""Seconds that a row may wait for others."""


class BackgroundWriter(Generic[T]):
    """Hands rows to a function, many at a time, in the order in which they came."""

    def __init__(self, write: Callable[[Sequence[T]], None]) -> None:
        """``write`` is called by one thread at a time; it must not raise."""
        self._write = write
        self._rows: list[T] = []
        self._changed = threading.Condition()
        self._writing = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()

    def add(self, row: T) -> None:
        """Write a row soon."""
        with self._changed:
            self._rows.append(row)
            if len(self._rows) > 1:
                return
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="evals-store", daemon=True
                )
                self._thread.start()
            self._changed.notify()

    def flush(self) -> None:
        """Write what is there; it is written when this returns."""
        with self._writing:
            with self._changed:
                rows, self._rows = self._rows, []
            if rows:
                self._write(rows)

    def close(self) -> None:
        """Write what is there, and end the thread."""
        self._closed.set()
        with self._changed:
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self.flush()

    def _run(self) -> None:
        while not self._closed.is_set():
            with self._changed:
                while not self._rows and not self._closed.is_set():
                    self._changed.wait()
            self._closed.wait(PAUSE_S)
            self.flush()
