"""The stored responses as a whole: sizes, checks, pruning, merging and export. All of
it is safe while runs use the store: rows are deleted and added in short transactions.

A row's number counts all writes (``completeness``), so the last row is never deleted,
and the count is written again when the file was packed.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from pytest_evals.errors import StoreError
from pytest_evals.store.completeness import record_last_row
from pytest_evals.store.database import (
    USES,
    connect,
    connect_read_only,
    create,
    own_place,
)
from pytest_evals.store.files import make_base
from pytest_evals.store.responses import NAME
from pytest_evals.store.rows import is_intact, row_response

_ROWS = """
SELECT rowid, key, model, prompt, settings, response, stored, checksum,
    COALESCE(uses.task, ''), MAX(stored, COALESCE(uses.used, 0))
FROM responses LEFT JOIN uses USING (key)
"""
_HAS_USES = "SELECT 1 FROM sqlite_master WHERE name = 'uses'"
_AT_ONCE = 500
"""Rows in one transaction: a run waits for it."""
PER_ROW = 160
"""Bytes of a row besides its texts: keys, checksum, indices and uses."""


class _Row(NamedTuple):
    """A row of :data:`_ROWS`."""

    number: int
    key: bytes
    model: int
    prompt: bytes
    settings: bytes
    body: bytes
    stored: float
    checksum: int
    task: bytes
    used: float

    @property
    def is_intact(self) -> bool:
        """Whether the response matches its checksum."""
        return is_intact(self.key, self.body, self.checksum)


def _rows(connection: sqlite3.Connection) -> Iterator[_Row]:
    return map(_Row._make, connection.execute(_ROWS))


class StoredRow(NamedTuple):
    """A row of the store."""

    number: int
    key: bytes
    model: str
    """Description of its model, for people."""
    task: str
    """The task that used it last; empty if unknown."""
    stored: float
    """Unix time at which it was stored."""
    used: float
    """Unix time of its last use."""
    size: int
    """Bytes in the file, about."""


class ReplyConflict(NamedTuple):
    """Two different replies to one request."""

    model: str
    settings: str
    here: str
    there: str


def store_path(base: Path) -> Path:
    """Return the file of stored responses in a results folder, or the file itself.

    Raises:
        StoreError: It does not exist.
    """
    path = base if base.is_file() else own_place(base / NAME)
    if not path.is_file():
        raise StoreError(
            f"{path}: no stored responses\n  fix: name a folder with --dir"
        )
    return path


@contextmanager
def opened(path: Path, *, writes: bool = False) -> Iterator[sqlite3.Connection]:
    """Open a store that exists.

    Raises:
        StoreError: It is damaged or cannot be opened.
    """
    try:
        with closing((connect if writes else connect_read_only)(path)) as connection:
            if writes:
                connection.execute(USES)
            elif not connection.execute(_HAS_USES).fetchall():
                connection.execute(USES.replace("CREATE TABLE", "CREATE TEMP TABLE"))
            yield connection
    except (sqlite3.Error, UnicodeDecodeError, OSError) as error:
        raise StoreError(
            f"{path}: cannot be used: {error}\n"
            "  fix: the next run moves a damaged store aside and keeps its intact rows"
        ) from None


def rows_of(connection: sqlite3.Connection) -> Iterator[StoredRow]:
    """Yield all rows, without their responses."""
    names = model_names(connection)
    for row in _rows(connection):
        size = len(row.settings) + len(row.body) + PER_ROW
        name, task = names.get(row.model, "?"), row.task.decode()
        yield StoredRow(row.number, row.key, name, task, row.stored, row.used, size)


def model_names(connection: sqlite3.Connection) -> dict[int, str]:
    """Return a description of each model by its number."""
    return {
        number: _model_name(number, fingerprint)
        for number, fingerprint in connection.execute(
            "SELECT id, fingerprint FROM models"
        )
    }


def _model_name(number: int, fingerprint: bytes) -> str:
    try:
        found = json.loads(fingerprint)
    except ValueError:
        return f"model {number}"
    texts = [
        str(found[key])
        for key in ("kind", "model", "pretrained", "name", "target", "class", "dtype")
        if isinstance(found, dict) and isinstance(found.get(key), str) and found[key]
    ]
    digest = blake2b(fingerprint, digest_size=3).hexdigest()
    return f"{':'.join(dict.fromkeys(texts)) or 'model'} {digest}"


def damaged_rows(connection: sqlite3.Connection) -> Iterator[str]:
    """Yield what is wrong with the file and with each row: pages, checksums, keys."""
    for (text,) in connection.execute("PRAGMA integrity_check(10)"):
        if text != b"ok":
            yield f"pages: {text.decode('utf-8', 'replace')}"
    models = {}
    for number, hash_, fingerprint in connection.execute(
        "SELECT id, hash, fingerprint FROM models"
    ):
        models[number] = hash_
        if blake2b(fingerprint, digest_size=32).digest() != hash_:
            yield f"model {number}: its fingerprint does not match its hash"
    for row in _rows(connection):
        if not row.is_intact:
            yield f"row {row.number}: the response does not match its checksum"
        elif row.model not in models:
            yield f"row {row.number}: its model is missing"
        else:
            data = b"%b%b%b" % (models[row.model], row.prompt, row.settings)
            if blake2b(data, digest_size=32).digest() != row.key:
                yield f"row {row.number}: the request does not match its key"
            elif row_response(row.key, row.body, row.checksum) is None:
                yield f"row {row.number}: the response cannot be read"


def delete(
    path: Path, connection: sqlite3.Connection, rows: Sequence[StoredRow]
) -> int:
    """Delete rows, unless a run has used or replaced them meanwhile; pack the file.

    Returns:
        How many were deleted. The last row of the store stays: its number counts the
        writes.
    """
    n = 0
    for start in range(0, len(rows), _AT_ONCE):
        connection.execute("BEGIN IMMEDIATE")
        ((last,),) = connection.execute("SELECT max(rowid) FROM responses")
        for row in rows[start : start + _AT_ONCE]:
            if row.number == last:
                continue
            done = connection.execute(
                "DELETE FROM responses WHERE rowid = ? AND key = ? AND NOT EXISTS "
                "(SELECT 1 FROM uses WHERE uses.key = responses.key AND used > ?)",
                [row.number, row.key, row.used],
            )
            if done.rowcount:
                n += 1
                connection.execute("DELETE FROM uses WHERE key = ?", [row.key])
        connection.execute("COMMIT")
    if n:
        pack(path, connection)
    return n


def pack(path: Path, connection: sqlite3.Connection) -> None:
    """Give the space of deleted rows back. It numbers the rows again."""
    with suppress(sqlite3.OperationalError):  # another process writes: next time
        connection.execute("VACUUM")
        record_last_row(connection, path)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def add_store(
    path: Path, connection: sqlite3.Connection, other: sqlite3.Connection
) -> tuple[int, int, list[ReplyConflict]]:
    """Add the intact rows of another store.

    Returns:
        Rows that were added, rows that both had, and those with different replies, of
        which the one here stays.
    """
    ids = _added_models(connection, other)
    names = model_names(other)
    n_added = n_same = 0
    conflicts: list[ReplyConflict] = []
    pending: list[Sequence[Any]] = []
    for row in _rows(other):
        if not row.is_intact or row.model not in ids:
            continue
        found = connection.execute(
            "SELECT response, checksum FROM responses WHERE key = ?", [row.key]
        ).fetchall()
        if found and is_intact(row.key, *found[0]):
            n_same += 1
            if _reply(row.key, *found[0]) != _reply(row.key, row.body, row.checksum):
                texts = (row.settings.decode(), found[0][0].decode(), row.body.decode())
                conflicts.append(ReplyConflict(names.get(row.model, "?"), *texts))
            continue
        given = row.settings.decode("ascii"), row.body.decode("ascii")
        model, stored = ids[row.model], row.stored
        values = (row.key, model, row.prompt, *given, stored, row.checksum)
        pending.append((values, (row.key, row.task.decode(), row.used)))
        n_added += 1
        if len(pending) >= _AT_ONCE:
            _add(path, connection, pending)
            pending = []
    _add(path, connection, pending)
    return n_added, n_same, conflicts


def _added_models(
    connection: sqlite3.Connection, other: sqlite3.Connection
) -> Mapping[int, int]:
    """Add the models of another store; return the number here of each."""
    ids = {}
    for number, hash_, fingerprint, info in other.execute(
        "SELECT id, hash, fingerprint, info FROM models"
    ):
        if blake2b(fingerprint, digest_size=32).digest() == hash_:
            texts = fingerprint.decode("ascii"), info.decode("ascii", "replace")
            connection.execute(
                "INSERT OR IGNORE INTO models (hash, fingerprint, info) "
                "VALUES (?, ?, ?)",
                [hash_, *texts],
            )
            query = "SELECT id FROM models WHERE hash = ?"
            ((ids[number],),) = connection.execute(query, [hash_]).fetchall()
    return ids


def _add(
    path: Path, connection: sqlite3.Connection, pending: Sequence[Sequence[Any]]
) -> None:
    if not pending:
        return
    connection.execute("BEGIN IMMEDIATE")
    query = "INSERT OR IGNORE INTO responses VALUES (?, ?, ?, ?, ?, ?, ?)"
    connection.executemany(query, [row for row, _ in pending])
    query = "INSERT OR IGNORE INTO uses VALUES (?, ?, ?)"
    connection.executemany(query, [use for _, use in pending])
    connection.execute("COMMIT")
    record_last_row(connection, path)


_OF_ONE_CALL = frozenset({"elapsed_s", "latency_s", "cost"})
"""Fields of a response that differ between two calls with equal replies."""


def _reply(key: bytes, body: bytes, checksum: int) -> dict[str, Any] | None:
    """Return the fields of a response that scoring reads."""
    if row_response(key, body, checksum) is None:
        return None
    given: dict[str, Any] = json.loads(body)
    return {name: v for name, v in given.items() if name not in _OF_ONE_CALL}


def new_store(base: Path) -> Path:
    """Return the store of a results folder; create it if it is missing.

    Raises:
        StoreError: It cannot be created.
    """
    path = own_place(base / NAME)
    try:
        if not path.exists():
            make_base(base)
            create(path)
    except (OSError, sqlite3.Error) as error:
        raise StoreError(f"{path}: cannot be created: {error}") from None
    return path


def exported(connection: sqlite3.Connection) -> Iterator[dict[str, Any]]:
    """Yield each intact response as JSON values, with its request's settings."""
    names = model_names(connection)
    for row in _rows(connection):
        if row.is_intact:
            yield {
                "key": row.key.hex(),
                "model": names.get(row.model, "?"),
                "task": row.task.decode(),
                "prompt_hash": row.prompt.hex(),
                "settings": json.loads(row.settings),
                "response": json.loads(row.body),
                "stored": row.stored,
                "used": row.used,
            }


def age_s(used: float) -> float:
    """Return the seconds since a use."""
    return max(0.0, time.time() - used)
