"""Rows that a damaged store would lose without an SQLite error: those that its index
does not find, and those of a log (``-wal``) that is damaged or gone."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from zlib import crc32

from pytest_evals.store.database import COUNT, INDEX, DamagedError

CHECK_S = 2.0
"""Maximum seconds of a check, enough for about a million rows."""
_STEPS = 10_000
"""SQLite's instructions between two looks at the clock."""
_UNFOUND = f"""
SELECT count(*) FROM responses AS row NOT INDEXED WHERE NOT EXISTS (
    SELECT 1 FROM responses AS entry INDEXED BY {INDEX} WHERE entry.key = row.key
)
"""


def check(connection: sqlite3.Connection, *, pages: bool) -> None:
    """Check that the index finds all rows: a lookup in a damaged one finds nothing and
    raises no error. Larger stores are checked for :data:`CHECK_S` seconds. ``pages``:
    also check that no page belongs to two rows: writing one of them would damage the
    other.

    Raises:
        DamagedError: A check failed.
        sqlite3.Error: The store is damaged elsewhere.
    """
    end = time.monotonic() + CHECK_S
    connection.set_progress_handler(lambda: time.monotonic() > end, _STEPS)
    try:
        connection.execute("BEGIN")  # other processes may write in between
        try:
            _check(connection, pages=pages)
        finally:
            connection.execute("ROLLBACK")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
            raise
    finally:
        connection.set_progress_handler(None, 0)


def _check(connection: sqlite3.Connection, *, pages: bool) -> None:
    n, n_entries, n_unfound = (
        connection.execute(query).fetchone()[0]
        for query in (
            "SELECT count(*) FROM responses NOT INDEXED",
            f"SELECT count(*) FROM responses INDEXED BY {INDEX}",
            _UNFOUND,
        )
    )
    if n != n_entries or n_unfound:
        raise DamagedError("the index does not match the rows")
    if pages and connection.execute("PRAGMA quick_check(1)").fetchone()[0] != b"ok":
        raise DamagedError("its pages are mixed up")


def last_row(connection: sqlite3.Connection) -> int:
    """Return the number of the last row, which counts all writes: a row that replaces
    another one gets a new number."""
    ((n,),) = connection.execute("SELECT max(rowid) FROM responses").fetchall()
    return n or 0


def record_last_row(connection: sqlite3.Connection, path: Path) -> None:
    """Write the number of the last row to a file next to the store. Failures are
    ignored: it is only a safeguard."""
    line = f"{_identity(connection)} {last_row(connection):019}".encode()
    line += b" %08x\n" % crc32(line)
    with suppress(OSError):
        descriptor = os.open(_count_path(path), os.O_WRONLY | os.O_CREAT, 0o666)
        try:
            # In place: a killed process leaves the old line or the new one.
            os.write(descriptor, line)
            os.ftruncate(descriptor, len(line))
        finally:
            os.close(descriptor)


def n_rows_lost(connection: sqlite3.Connection, path: Path) -> int:
    """Return how many rows were committed to the store, and are gone with its log."""
    identity, n = _recorded(path)
    is_same = identity == _identity(connection)
    return max(0, n - last_row(connection)) if is_same else 0


def n_recorded(path: Path) -> int:
    """Return how many rows were written to a store that may be missing."""
    return _recorded(path)[1]


def _recorded(path: Path) -> tuple[str, int]:
    with suppress(OSError, ValueError):
        line, _, checksum = _count_path(path).read_bytes().rpartition(b" ")
        identity, n = line.decode("ascii").split()
        if int(checksum, 16) == crc32(line):
            return identity, int(n)
    return "", 0


def _identity(connection: sqlite3.Connection) -> str:
    """Return a hash of the first model: the file may have been replaced by another
    store."""
    rows = connection.execute("SELECT hash FROM models ORDER BY id LIMIT 1").fetchall()
    first = rows[0][0] if rows else b""
    return blake2b(
        first if isinstance(first, bytes) else b"", digest_size=8
    ).hexdigest()


def _count_path(path: Path) -> Path:
    return path.with_name(path.name + COUNT)
