"""SQLite files: create them, open valid ones, set damaged ones aside; delete none."""

from __future__ import annotations

import ctypes
import os
import secrets
import sqlite3
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from pytest_evals.store.schema import SCHEMAS, schema_fault

_SCHEMA = SCHEMAS["responses"].current
APPLICATION = 0x65766C73  # ``evls``: SQLite's application id of our files
BUSY_S = 60.0  # Seconds that a process waits for other writers
_CAUSES_OUTSIDE = frozenset(
    {
        *(sqlite3.SQLITE_AUTH, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_CANTOPEN),
        *(sqlite3.SQLITE_FULL, sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_IOERR),
        *(sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOLFS, sqlite3.SQLITE_PERM),
        sqlite3.SQLITE_PROTOCOL,
    }
)
"""Primary result codes of locks, permissions and disks: the file may be intact."""
INDEX = "sqlite_autoindex_responses_1"
COUNT = "-count"  # Suffix of the file with the number of the last row that was written
_BESIDE = ("-wal", "-shm", COUNT)
"""Suffixes of the files next to a store; SQLite keeps the first two while it is open,
or was not closed."""
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
USES = """
CREATE TABLE IF NOT EXISTS uses (
    key BLOB PRIMARY KEY,
    task TEXT NOT NULL,
    used REAL NOT NULL
) WITHOUT ROWID
"""
"""The task that used a response last, and when: added to stores of earlier versions,
which ignore it. Other tables do not depend on it."""

READ_USES = "SELECT max(key), max(task), max(used) FROM uses"
"""Reads the whole table, so it fails if a page is damaged."""


class DamagedError(sqlite3.DatabaseError):
    """A file that is not a response store of this version; with the reason."""


def is_damage(error: Exception, path: Path) -> bool:
    """Return whether an SQLite error comes from a damaged file, not from its
    environment.

    Our statements never change, so "no such column" or a violated constraint shows a
    damaged schema just as "malformed" does. So does "read-only" if everything is
    writable: SQLite also reports it for an unknown version in the file header, and for
    a file that another process has moved.
    """
    if not isinstance(error, sqlite3.Error):
        # SQLite quotes the schema in its messages; the module decodes them strictly.
        return isinstance(error, UnicodeDecodeError)
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:  # not from SQLite: the module's own, such as for a closed file
        return isinstance(error, DamagedError)
    if code & 0xFF == sqlite3.SQLITE_READONLY:
        return os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)
    return code & 0xFF not in _CAUSES_OUTSIDE


def create(path: Path) -> None:
    """Create an empty store, unless the file exists; ``OSError`` or
    ``sqlite3.OperationalError`` if that fails. It is created under a temporary name and
    then renamed, so processes that start at the same time all find the same complete
    file."""
    draft = path.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        with closing(sqlite3.connect(draft, isolation_level=None)) as connection:
            connection.execute(f"PRAGMA application_id = {APPLICATION}")
            connection.execute(f"PRAGMA user_version = {_SCHEMA}")
            connection.executescript(_TABLES)
            # Last, so that all tables are in the file that is put in its place and none
            # in a log beside it. Where the file system cannot do it, SQLite stays with
            # its usual journal.
            connection.execute("PRAGMA journal_mode = WAL")
        try:
            path.hardlink_to(draft)
        except FileExistsError:
            pass
        except OSError:  # a file system without links
            if not path.exists():
                draft.rename(path)
    finally:
        for ending in ("", *_BESIDE, "-journal"):
            draft.with_name(draft.name + ending).unlink(missing_ok=True)


def own_place(path: Path) -> Path:
    """Return the file that this version uses: this one, or one next to it if this one
    has another schema version. That file is left unchanged for the version that wrote
    it."""
    if not other_schema(path):
        return path
    return path.with_name(f"{path.stem}-schema-{_SCHEMA}{path.suffix}")


def other_schema(path: Path) -> str:
    """Return why a store of another schema is not used; empty for other files."""
    if not path.is_file():
        return ""
    try:
        # SQLite reads the head: closing a file of our own would drop the locks that
        # other connections of this process hold on it (POSIX), and so lose their rows.
        with closing(_connection(path, "immutable=1")) as connection:
            application, schema = _version(connection)
    except (sqlite3.Error, UnicodeDecodeError):
        return ""
    fault = schema_fault("responses", schema, path)
    return fault.partition("\n")[0] if application == APPLICATION else ""


def connect(path: Path) -> sqlite3.Connection:
    """Open a store; ``DamagedError`` if it is not a store, is truncated, or has another
    version, ``sqlite3.Error`` if it cannot be opened or read (:func:`is_damage`)."""
    try:
        return _open(path, "mode=rw")
    except sqlite3.OperationalError:
        wal = path.with_name(f"{path.name}-wal")
        if wal.exists() or os.access(path.parent, os.W_OK):
            raise
        # A folder that is read-only has no place for the files of a shared database.
        return _open(path, "immutable=1")


def connect_read_only(path: Path) -> sqlite3.Connection:
    """Open a store, also a truncated one; the table of uses is empty if it is missing
    or damaged. The file is not changed. Raises ``DamagedError`` if it is not a store of
    this version, ``sqlite3.Error`` if it cannot be opened or read."""
    try:
        connection = _open(path, "mode=ro", is_whole=False)
    except sqlite3.OperationalError:
        connection = _open(path, "immutable=1", is_whole=False)
    try:
        connection.execute(READ_USES).fetchall()
    except sqlite3.Error:
        connection.execute(USES.replace("CREATE TABLE", "CREATE TEMP TABLE"))
    return connection


def abandon(connection: sqlite3.Connection) -> None:
    """Give up a connection to a file that was removed or replaced, without closing it:
    SQLite would delete the log of the new file, which has the same name."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


def _open(path: Path, mode: str, *, is_whole: bool = True) -> sqlite3.Connection:
    if path.stat().st_size == 0:
        # To SQLite this is a new database.
        raise DamagedError("the file is empty")
    connection = _connection(path, mode)
    try:
        if not is_whole:
            connection.execute("PRAGMA writable_schema = 1")
        # A commit survives the process, though perhaps not a power cut; nothing is
        # damaged.
        connection.execute("PRAGMA synchronous = NORMAL")
        _check(connection, path, f"INDEXED BY {INDEX}" if is_whole else "")
    except (sqlite3.Error, UnicodeDecodeError) as error:
        connection.close()
        if isinstance(error, UnicodeDecodeError):
            raise DamagedError("the schema is malformed") from None
        raise
    return connection


def _connection(path: Path, mode: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"file:{quote(str(path.absolute()))}?{mode}",
        uri=True,
        timeout=BUSY_S,
        isolation_level=None,
        check_same_thread=False,
    )
    # Raw bytes: decoding would fail on a damaged text, or hide what has changed.
    connection.text_factory = bytes
    return connection


def _version(connection: sqlite3.Connection) -> tuple[object, object]:
    ((application,),) = connection.execute("PRAGMA application_id").fetchall()
    ((schema,),) = connection.execute("PRAGMA user_version").fetchall()
    return application, schema


def _check(connection: sqlite3.Connection, path: Path, index: str) -> None:
    application, schema = _version(connection)
    if application != APPLICATION:
        raise DamagedError("it is a database of something else")
    fault = schema_fault("responses", schema, path)
    if fault:
        raise DamagedError(fault.partition("\n")[0])
    connection.execute("SELECT id, hash, fingerprint, info FROM models LIMIT 0")
    connection.execute(
        "SELECT key, model, prompt, settings, response, stored, checksum "
        f"FROM responses {index} LIMIT 0"
    )


def set_aside(path: Path) -> Path:
    """Move a store and the files that belong to it aside; the store itself may be
    missing. Returns its new path; ``OSError`` if it cannot be moved."""
    when = f"{datetime.now(UTC):%Y%m%d-%H%M%S}"
    place = path.with_name(f"{path.stem}-set-aside-{when}{path.suffix}")
    n = 1
    while any(map(Path.exists, _with_beside(place))):
        n += 1
        place = place.with_name(f"{path.stem}-set-aside-{when}-{n}{path.suffix}")
    for old, new in zip(_with_beside(path), _with_beside(place), strict=True):
        with suppress(FileNotFoundError):
            old.rename(new)
    return place


def _with_beside(path: Path) -> list[Path]:
    """The path of a store and of the files next to it."""
    return [path.with_name(path.name + ending) for ending in ("", *_BESIDE)]


def has_log(path: Path) -> bool:
    """Return whether a store has a log with content. SQLite would add a log to a new
    store of the same name."""
    try:
        return path.with_name(f"{path.name}-wal").stat().st_size > 0
    except OSError:
        return False
