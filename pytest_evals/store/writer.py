"""Background writes, so that a model never waits for a disk.

Rows are written with a short delay, in batches; a killed process loses the rows of that
delay. The thread starts with the first row and ends with
:meth:`BackgroundWriter.close`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")

PAUSE_S = 0.05  # Seconds that a row may wait for others


class BackgroundWriter(Generic[T]):
    """Passes rows to a function in batches, in order."""

    def __init__(self, write: Callable[[Sequence[T]], None]) -> None:
        """Set up the writer. ``write`` is called by one thread at a time and must not
        raise."""
        self._write = write
        self._rows: list[T] = []
        self._changed = threading.Condition()
        self._writing = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()

    def add(self, row: T) -> None:
        """Queue a row."""
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
        """Write all queued rows before returning."""
        with self._writing:
            with self._changed:
                rows, self._rows = self._rows, []
            if rows:
                self._write(rows)

    def close(self) -> None:
        """Write all queued rows, and end the thread."""
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
