"""Rows that a damaged store would lose without an SQLite error: those that its index
does not find, and those of a log (``-wal``) that is damaged or gone. And rows that are
taken over from another store: one that was damaged, removed or replaced, or that of
another machine."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

from pytest_evals.store.database import (
    COUNT,
    INDEX,
    USES,
    DamagedError,
    connect_read_only,
)
from pytest_evals.store.rows import ModelRow, ResponseRow, row_response

CHECK_S = 2.0  # Maximum seconds of a check, enough for about a million rows
_STEPS = 10_000  # SQLite's instructions between two looks at the clock
_UNFOUND = f"""
SELECT count(*) FROM responses AS row NOT INDEXED WHERE NOT EXISTS (
    SELECT 1 FROM responses AS entry INDEXED BY {INDEX} WHERE entry.key = row.key
)
"""
Values = tuple[Any, ...]  # The columns of a row of responses
_NO_MODEL = 0  # Number of models that are missing
AT_ONCE = 500  # Rows in one transaction: a run waits for it
_TIME = "MAX(0.0, MIN(COALESCE(CAST({} AS REAL), 0.0), strftime('%s', 'now') + 1.0))"
_ROWS = f"""
SELECT responses.rowid, key, model, prompt, settings, response, checksum,
    {_TIME.format("stored")}, COALESCE(CAST(uses.task AS TEXT), ''),
    {_TIME.format("MAX(stored, COALESCE(uses.used, 0))")}
FROM responses NOT INDEXED LEFT JOIN uses USING (key)
WHERE responses.rowid > ? ORDER BY responses.rowid
"""
_MOST_ROWS = 2**60
_OF_ONE_CALL = frozenset({"elapsed_s", "latency_s", "cost"})
"""Fields of a response that differ between two calls with equal replies."""


def check(connection: sqlite3.Connection, *, pages: bool) -> None:
    """Check that the index finds all rows: a lookup in a damaged one finds nothing and
    raises no error. ``DamagedError`` if it does not, ``sqlite3.Error`` if the store is
    damaged elsewhere. Larger stores are checked for :data:`CHECK_S` seconds. ``pages``:
    also check that no page belongs to two rows: writing one of them would damage the
    other."""
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
    queries = (
        "SELECT count(*) FROM responses NOT INDEXED",
        f"SELECT count(*) FROM responses INDEXED BY {INDEX}",
        _UNFOUND,
    )
    n, n_entries, n_unfound = (connection.execute(q).fetchone()[0] for q in queries)
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
    """Return a hash of the first model: another store may be in the file's place."""
    rows = connection.execute("SELECT hash FROM models ORDER BY id LIMIT 1").fetchall()
    first = rows[0][0] if rows else b""
    known = first if isinstance(first, bytes) else b""
    return blake2b(known, digest_size=8).hexdigest()


def _count_path(path: Path) -> Path:
    return path.with_name(path.name + COUNT)


class ReplyConflict(NamedTuple):
    """Two different replies to one request."""

    model: int  # Its number in the other store
    here: str
    there: str


class Added(NamedTuple):
    """What was added from another store."""

    n_added: int = 0
    n_same: int = 0  # Rows that both stores had
    n_damaged: int = 0
    conflicts: tuple[ReplyConflict, ...] = ()  # Those of which the reply here stays


def readable_rows(connection: sqlite3.Connection) -> Iterator[ResponseRow]:
    """Yield the rows of all pages that can be read."""
    last: int | None = 0
    while last is not None:
        try:
            for values in connection.execute(_ROWS, [last]):
                row = ResponseRow._make(values)
                last = max(last, row.number)
                yield row
            return
        except sqlite3.Error:
            last = _end_of_damage(connection, last)


def readable_models(connection: sqlite3.Connection) -> list[ModelRow]:
    """Return the models that can be read."""
    found = []
    with suppress(sqlite3.Error):
        for values in connection.execute(
            "SELECT id, hash, fingerprint, info FROM models NOT INDEXED"
        ):
            found.append(ModelRow._make(values))
    return found


def _end_of_damage(connection: sqlite3.Connection, last: int) -> int | None:
    """Return a number after which rows can be read again; ``None`` without one."""

    def is_readable(number: int) -> bool:
        try:
            connection.execute(f"{_ROWS} LIMIT 1", [number]).fetchall()
        except sqlite3.Error:
            return False
        return True

    step = 1
    while not is_readable(last + step):
        step *= 2
        if step > _MOST_ROWS:
            return None
    low, high = last + step // 2, last + step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_readable(middle) else (middle, high)
    return high


def copy_intact(place: Path, path: Path, connection: sqlite3.Connection) -> int:
    """Copy the rows of a damaged store that match their checksums into a new one;
    return their number. ``sqlite3.Error`` if the new store cannot be written."""
    try:
        old = connect_read_only(place)
    except (OSError, sqlite3.Error, UnicodeDecodeError):
        return 0
    connection.execute(USES)
    with closing(old):
        return add_rows(path, connection, old).n_added


def add_rows(
    path: Path, connection: sqlite3.Connection, other: sqlite3.Connection
) -> Added:
    """Add the intact rows of another store, with their last uses; ``sqlite3.Error`` if
    the store cannot be written."""
    models = _added_models(connection, other)
    n_added = n_same = n_damaged = 0
    conflicts: list[ReplyConflict] = []
    pending: list[tuple[Values, Values]] = []
    for row in readable_rows(other):
        model, hash_ = models.get(row.model, (_NO_MODEL, None))
        if not row.is_intact or not row.is_of(hash_):
            n_damaged += 1
            continue
        found = connection.execute(
            "SELECT response, checksum FROM responses WHERE key = ?", [row.key]
        ).fetchall()
        if found and row_response(row.key, *found[0]) is not None:
            n_same += 1
            here, there = found[0][0].decode(), row.body.decode()
            if _reply(here) != _reply(there):
                conflicts.append(ReplyConflict(row.model, here, there))
            continue
        texts = row.settings.decode("ascii", "replace"), row.body.decode("ascii")
        values = (row.key, model, row.prompt, *texts, row.stored, row.checksum)
        use = (row.key, row.task.decode("utf-8", "replace"), row.used)
        pending.append((values, use))
        if len(pending) >= AT_ONCE:
            n_added += _add(connection, pending)
            pending = []
    n_added += _add(connection, pending)
    record_last_row(connection, path)
    return Added(n_added, n_same, n_damaged, tuple(conflicts))


def _added_models(
    connection: sqlite3.Connection, other: sqlite3.Connection
) -> Mapping[object, tuple[int, bytes]]:
    found: dict[object, tuple[int, bytes]] = {}
    for model in readable_models(other):
        if model.is_intact and isinstance(model.info, bytes):
            texts = model.fingerprint.decode("ascii"), model.info.decode("ascii")
            connection.execute(
                "INSERT OR IGNORE INTO models (hash, fingerprint, info) "
                "VALUES (?, ?, ?)",
                [model.hash, *texts],
            )
            query = "SELECT id FROM models WHERE hash = ?"
            ((here,),) = connection.execute(query, [model.hash]).fetchall()
            found[model.number] = here, model.hash
    return found


def _add(
    connection: sqlite3.Connection, pending: Sequence[tuple[Values, Values]]
) -> int:
    """Add rows with their uses; return the number of new ones."""
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        query = "INSERT OR IGNORE INTO responses VALUES (?, ?, ?, ?, ?, ?, ?)"
        done = connection.executemany(query, [row for row, _ in pending])
        query = "INSERT OR IGNORE INTO uses VALUES (?, ?, ?)"
        connection.executemany(query, [use for _, use in pending])
    return max(0, done.rowcount)


def _reply(body: str) -> dict[str, Any]:
    """Return the fields of a response that scoring reads."""
    given: dict[str, Any] = json.loads(body)
    return {name: value for name, value in given.items() if name not in _OF_ONE_CALL}


def rows_since(
    connection: sqlite3.Connection, row: int, model: int | None
) -> list[Values]:
    """Return the rows of a model after a row, in the form in which they were written;
    ``sqlite3.Error`` if they cannot be read."""
    rows = connection.execute(
        "SELECT key, prompt, settings, response, stored, checksum FROM responses "
        "WHERE rowid > ? AND model = ?",
        [row, model],
    )
    return [
        (key, prompt, settings.decode("ascii"), body.decode("ascii"), stored, checksum)
        for key, prompt, settings, body, stored, checksum in rows
    ]
