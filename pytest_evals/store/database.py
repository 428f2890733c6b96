"""The file of an SQLite database: making one, opening one that can be trusted, and
moving one aside that cannot. Nothing here deletes anything.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

__all__ = ["DamagedError", "connect", "create", "own_place", "set_aside"]

APPLICATION = 0x65766C73
"""``evls``: what tells our files from others."""
SCHEMA = 1
"""Raised when a table or what a key is made of changes its meaning."""
HEAD = 100
"""Bytes of the head of an SQLite file."""
BUSY_S = 60.0
"""Seconds that a process waits for others which write."""
_BESIDE = ("-wal", "-shm")
"""Endings of the files that belong to a database which is open, or was not closed."""
_TABLES = """
CREATE TABLE models (
    id INTEGER PRIMARY KEY,
    hash BLOB NOT NULL UNIQUE,
    fingerprint TEXT NOT NULL,
    info TEXT NOT NULL DEFAULT '{}'
);
CREATE TABLE responses (
    key BLOB PRIMARY KEY,
    model INTEGER NOT NULL REFERENCES models (id),
    prompt BLOB NOT NULL,
    settings TEXT NOT NULL,
    response TEXT NOT NULL,
    stored REAL NOT NULL,
    checksum INTEGER NOT NULL
);
"""


class DamagedError(sqlite3.DatabaseError):
    """A file that is no store of this version; the text says why."""


def create(path: Path) -> None:
    """Make an empty store, unless there is a file already.

    It is made beside its place and put there complete, so that processes which start at
    once all find the same, whole file.

    Raises:
        OSError: It cannot be made.
        sqlite3.OperationalError: As before.
    """
    draft = path.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        connection = sqlite3.connect(draft, isolation_level=None)
        try:
            connection.execute(f"PRAGMA application_id = {APPLICATION}")
            connection.execute(f"PRAGMA user_version = {SCHEMA}")
            connection.executescript(_TABLES)
            # Last, so that all tables are in the file that is put in its place and none
            # in a log beside it. Where the file system cannot do it, SQLite stays with
            # its usual journal.
            connection.execute("PRAGMA journal_mode = WAL")
        finally:
            connection.close()
        with suppress(FileExistsError):
            _put(draft, path)
    finally:
        for ending in ("", *_BESIDE, "-journal"):
            draft.with_name(draft.name + ending).unlink(missing_ok=True)


def _put(draft: Path, path: Path) -> None:
    try:
        path.hardlink_to(draft)
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        if not path.exists():
            draft.rename(path)


def own_place(path: Path) -> Path:
    """Where the store of this version is: here; or beside a file of another version,
    which stays what it is for those who use that.

    The version is read from the head of the file (SQLite's file format, 1.3).
    """
    try:
        with path.open("rb") as file:
            head = file.read(HEAD)
    except OSError:
        return path
    schema, application = head[60:64], head[68:72]
    is_ours = len(head) == HEAD and application == APPLICATION.to_bytes(4)
    if not is_ours or schema == SCHEMA.to_bytes(4):
        return path
    return path.with_name(f"{path.stem}-schema-{SCHEMA}{path.suffix}")


def connect(path: Path) -> sqlite3.Connection:
    """Open a store.

    Raises:
        DamagedError: It is none, is cut short, or is of another version.
        sqlite3.OperationalError: It cannot be opened or read.
    """
    if path.stat().st_size == 0:
        # To SQLite this is a new database.
        raise DamagedError("the file is empty")
    try:
        connection = _open(path, "mode=rw")
        _check(connection)
    except sqlite3.OperationalError:
        wal = path.with_name(f"{path.name}-wal")
        if wal.exists() or os.access(path.parent, os.W_OK):
            raise
        # A folder that is read-only has no place for the files of a shared database.
        connection = _open(path, "immutable=1")
        _check(connection)
    return connection


def _open(path: Path, mode: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"file:{quote(str(path.absolute()))}?{mode}",
        uri=True,
        timeout=BUSY_S,
        isolation_level=None,
        check_same_thread=False,
    )
    # What is no text any more must not end the query, but fail its checksum.
    connection.text_factory = lambda data: data.decode("utf-8", "replace")
    # A commit survives the process, though perhaps not a power cut; nothing is damaged.
    connection.execute("PRAGMA synchronous = NORMAL")
    return connection


def _check(connection: sqlite3.Connection) -> None:
    try:
        ((application,),) = connection.execute("PRAGMA application_id").fetchall()
        ((schema,),) = connection.execute("PRAGMA user_version").fetchall()
        if application != APPLICATION:
            raise DamagedError("it is a database of something else")
        if schema != SCHEMA:
            raise DamagedError(f"it has schema {schema}; this version has {SCHEMA}")
        connection.execute("SELECT hash, fingerprint, info FROM models").fetchone()
        connection.execute(
            "SELECT key, model, prompt, settings, response, stored, checksum "
            "FROM responses LIMIT 1"
        ).fetchone()
    except sqlite3.OperationalError as error:
        connection.close()
        if str(error).startswith("no such"):
            raise DamagedError(str(error)) from None
        raise
    except sqlite3.DatabaseError:
        connection.close()
        raise


def set_aside(path: Path) -> Path:
    """Move a store away, with what belongs to it.

    Returns:
        Where it is now.

    Raises:
        OSError: It cannot be moved.
    """
    when = f"{datetime.now(UTC):%Y%m%d-%H%M%S}"
    place = path.with_name(f"{path.stem}-set-aside-{when}{path.suffix}")
    n = 1
    while place.exists():
        n += 1
        place = place.with_name(f"{path.stem}-set-aside-{when}-{n}{path.suffix}")
    path.rename(place)
    for ending in _BESIDE:
        beside = path.with_name(path.name + ending)
        if beside.exists():
            beside.rename(place.with_name(place.name + ending))
    return place
