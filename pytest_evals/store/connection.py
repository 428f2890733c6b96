"""The open file of responses: it is created, opened again after it was removed, and
replaced after damage; and the thread that writes to it, so that a model never waits for
a disk."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from pytest_evals.errors import StoreError
from pytest_evals.store.database import (
    abandon,
    connect,
    create,
    has_log,
    is_damage,
    set_aside,
)
from pytest_evals.store.files import make_base
from pytest_evals.store.recovery import (
    Values,
    copy_intact,
    last_row,
    n_recorded,
    n_rows_lost,
    record_last_row,
    rows_since,
)

T = TypeVar("T")
PAUSE_S = 0.05  # Seconds that a row may wait for others


def counted(n: int, one: str, many: str) -> str:
    """Return "1 response is" or "2 responses are", with these verbs."""
    return f"1 response {one}" if n == 1 else f"{n} responses {many}"


class StoreFile:
    """The file as one model uses it. Errors are not raised: ``fault`` has the last one
    of the disk, and ``notes`` has what happened to stored responses."""

    def __init__(
        self, path: Path, model: bytes, fingerprint: str, *, writes: bool
    ) -> None:
        """Open the file; create it if responses are to be written. ``model``: hash of
        the ``fingerprint``, which is JSON."""
        self.path, self._hash, self._fingerprint = path, model, fingerprint
        self._writes = writes
        self.notes: list[str] = []
        self.fault = ""
        self.failed_at = 0.0  # Monotonic time of the fault
        # One connection for the thread that asks and for the one that writes.
        self.lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._place: tuple[int, int] | None = None
        self._model: int | None = None
        self._first_row = 0
        self.open()

    @property
    def is_open(self) -> bool:
        """Whether there is a file that can be read."""
        return self._connection is not None

    def tried(self, action: Callable[[sqlite3.Connection], T]) -> T | None:
        """Return the result of a database action; ``None`` after a disk error. A
        damaged database is moved aside, and the action is retried on a new one."""
        with self.lock:
            for _ in range(2):
                if self._connection is None:
                    return None
                try:
                    return action(self._connection)
                except (sqlite3.Error, UnicodeDecodeError) as error:
                    if not is_damage(error, self.path):
                        self._give_up(error)
                        return None
                    self._replace(error)
            return None

    def model(self, connection: sqlite3.Connection) -> int:
        """Return the model's id, and add the model if it is missing; ``sqlite3.Error``
        if it cannot be added."""
        if self._model is None:
            connection.execute(
                "INSERT OR IGNORE INTO models (hash, fingerprint) VALUES (?, ?)",
                [self._hash, self._fingerprint],
            )
            self._find_model(connection)
        if self._model is None:
            raise sqlite3.OperationalError("the model cannot be added")
        return self._model

    def follow(self) -> list[Values]:
        """Open the file again if it was removed or replaced; return the rows of this
        run in the file that was open, to be written again."""
        old = self._connection
        if old is None or self._is_in_place():
            return []
        message = f"{str(self.path)!r} was removed or replaced during the run"
        rows: list[Values] = []
        try:
            rows = rows_since(old, self._first_row, self._model)
        except (sqlite3.Error, UnicodeDecodeError) as error:
            self.notes.append(f"{message}; its responses are lost: {error}")
        else:
            earlier = "; the responses of earlier runs are lost"
            self.notes.append(message + earlier * (self._first_row > 0))
        self._connection = None
        abandon(old)
        self.open()
        return rows

    def open(self) -> None:
        """Open the file, unless it is open."""
        if self._connection is not None:
            return
        try:
            self._connect()
        except (sqlite3.Error, UnicodeDecodeError, OSError, StoreError) as error:
            if is_damage(error, self.path):
                self._replace(error)
            else:
                self._give_up(error)

    def close(self) -> None:
        """Close the file."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if self._is_in_place():
            connection.close()
        else:
            abandon(connection)

    def _is_in_place(self) -> bool:
        """Return whether the open file is still the one with its name."""
        try:
            found = self.path.stat()
        except OSError:
            return False
        return (found.st_dev, found.st_ino) == self._place

    def _connect(self) -> None:
        if not self.path.exists():
            if not self._writes:
                return
            make_base(self.path.parent)
            self._set_leftovers_aside()
            create(self.path)
        found = self.path.stat()
        self._place = found.st_dev, found.st_ino
        connection = connect(self.path)
        try:
            self._begin(connection)
        except BaseException:
            connection.close()
            raise
        self._connection = connection

    def _set_leftovers_aside(self) -> None:
        """Move a removed store's files: SQLite would add its log to the new one."""
        n = n_recorded(self.path)
        if not n and not has_log(self.path):
            return
        place = set_aside(self.path)
        if self._place is None:
            message = f"its {counted(n, 'is', 'are')}" if n else "its responses are"
            self.notes.append(
                f"{str(self.path)!r} was removed, and {message} sent again; the files "
                f"next to it were moved to '{place}-*'"
            )

    def _begin(self, connection: sqlite3.Connection) -> None:
        if n := n_rows_lost(connection, self.path):
            self.notes.append(
                f"{counted(n, 'is', 'are')} missing in {str(self.path)!r}, because "
                "its log is damaged or was removed; the requests are sent again"
            )
        self._model = None
        self._find_model(connection)
        self._first_row = last_row(connection)
        if self._writes:
            try:
                self.model(connection)
                record_last_row(connection, self.path)
            except sqlite3.Error as error:
                if is_damage(error, self.path):
                    raise
                self._give_up(error)

    def _find_model(self, connection: sqlite3.Connection) -> None:
        rows = connection.execute(
            "SELECT id FROM models WHERE hash = ?", [self._hash]
        ).fetchall()
        self._model = rows[0][0] if rows else None

    def _give_up(self, error: Exception) -> None:
        self.fault = str(error).splitlines()[0]
        self.failed_at = time.monotonic()

    def _replace(self, error: Exception) -> None:
        """Move a damaged database aside, and create a new one with its intact rows."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        try:
            # Another process may have been faster.
            place = set_aside(self.path) if self._is_in_place() else None
            self._connect()
            if place is None or self._connection is None:
                return
            n = copy_intact(place, self.path, self._connection)
            kept = f" with {counted(n, 'that is', 'that are')} intact" if n else ""
            self.notes.append(
                f"{str(self.path)!r} cannot be used: {error}; it was moved "
                f"to {str(place)!r}, and a new one was created{kept}"
            )
        except (OSError, StoreError, sqlite3.Error) as fault:
            self._give_up(fault)


class BackgroundWriter(Generic[T]):
    """Passes rows to a function in batches, in order, with a short delay; a killed
    process loses the rows of that delay. The thread starts with the first row."""

    def __init__(self, write: Callable[[Sequence[T]], None]) -> None:
        """``write`` is called by one thread at a time and must not raise."""
        self._write = write
        self._rows: list[T] = []
        self._changed = threading.Condition()
        # Held from taking rows to writing them, so that flush() waits for both.
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
