"""The stored responses as a whole: sizes, checks, pruning, merging and export. All of
it is safe while runs use the store: rows are deleted and added in short transactions.

A row's number counts all writes (``recovery``), so the last row is never deleted,
and the count is written again when the file was packed.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from pytest_evals.errors import StoreError
from pytest_evals.store.database import (
    INDEX,
    READ_USES,
    USES,
    connect,
    connect_read_only,
    create,
    is_damage,
    other_schema,
    own_place,
)
from pytest_evals.store.files import make_base
from pytest_evals.store.recovery import (
    AT_ONCE,
    last_row,
    n_rows_lost,
    readable_models,
    readable_rows,
    record_last_row,
)
from pytest_evals.store.responses import NAME
from pytest_evals.store.rows import ModelRow, ResponseRow

UNKNOWN = "(unknown)"  # Name of a missing model or task
_NO_MODEL = "the model is missing, so the key cannot be checked"
_NAMES = ("kind", "python", "given", "serve", "model", "pretrained", "name", "dtype")
"""Keys of fingerprints that name a model."""
PER_ROW = 160  # Bytes of a row besides its texts: keys, checksum, indices and uses


class StoredRow(NamedTuple):
    """A row of the store."""

    number: int
    key: bytes
    model: str  # Description of its model, for people
    task: str  # The task that used it last; empty if unknown
    stored: float  # Unix time at which it was stored
    used: float  # Unix time of its last use
    size: int  # Bytes in the file, about


def store_path(base: Path) -> Path:
    """Return the file of stored responses in a results folder, or the file itself;
    ``StoreError`` if it does not exist."""
    given = base if base.is_file() else base / NAME
    path = own_place(given)
    if path.is_file():
        return path
    if fault := other_schema(given):
        raise StoreError(f"{fault}\n  fix: use the version that wrote it")
    if path.is_symlink() or path.exists():
        raise StoreError(f"{path}: not a file\n  fix: remove it; runs create it")
    fix = "name a folder of results: with --dir, or after merge"
    raise StoreError(f"{path}: no stored responses\n  fix: {fix}")


@contextmanager
def opened(path: Path, *, writes: bool = False) -> Iterator[sqlite3.Connection]:
    """Open a store that exists; to read, also a damaged one. Raises ``StoreError`` if
    it cannot be opened, or is damaged where it is read."""
    try:
        with closing((connect if writes else connect_read_only)(path)) as connection:
            if writes:
                connection.execute(USES)
                connection.execute(READ_USES).fetchall()
            yield connection
    except (sqlite3.Error, UnicodeDecodeError, OSError) as error:
        fix = "the next run moves a damaged store aside and keeps its intact rows"
        if not is_damage(error, path):
            fix = "make the file and its folder readable"
            fix += " and writable" * writes
        raise StoreError(f"{path}: cannot be used: {error}\n  fix: {fix}") from None


def rows_of(connection: sqlite3.Connection) -> Iterator[StoredRow]:
    """Yield all rows that can be read, without their responses."""
    names = model_names(connection)
    for row in readable_rows(connection):
        texts = [one for one in (row.settings, row.body) if isinstance(one, bytes)]
        size = PER_ROW + sum(map(len, texts))
        name, task = names.get(row.model, UNKNOWN), row.task.decode("utf-8", "replace")
        yield StoredRow(row.number, row.key, name, task, row.stored, row.used, size)


def model_names(connection: sqlite3.Connection) -> dict[object, str]:
    """Return a description of each model by its number."""
    return {
        one.number: _model_name(one) if one.is_intact else f"model {one.number}"
        for one in readable_models(connection)
    }


def _model_name(model: ModelRow) -> str:
    found = json.loads(model.fingerprint)
    known = found if isinstance(found, dict) else {}
    texts = [known[key] for key in _NAMES if isinstance(known.get(key), str)]
    digest = blake2b(model.fingerprint, digest_size=3).hexdigest()
    return f"{':'.join(dict.fromkeys(filter(None, texts))) or 'model'} {digest}"


def damage(path: Path, connection: sqlite3.Connection) -> tuple[list[str], int]:
    """Check the pages, the index, the models, and the checksum and key of each row;
    return what is damaged, and the number of responses that can be used."""
    faults = [*_damaged_pages(path, connection)]
    faults += [
        f"model {model.number}: does not match its checksums"
        for model in readable_models(connection)
        if not model.is_intact
    ]
    n_intact = n_unknown = 0
    for row, fault in _checked(connection):
        n_intact += not fault
        n_unknown += fault == _NO_MODEL
        if fault and fault != _NO_MODEL:
            faults.append(f"row {row.number}: {fault}")
    if n_unknown:
        s = "s" * (n_unknown > 1)
        faults.append(f"{n_unknown:,} response{s}: {_NO_MODEL}; runs can use them")
    return faults, n_intact + n_unknown


def _damaged_pages(path: Path, connection: sqlite3.Connection) -> Iterator[str]:
    try:
        for (text,) in connection.execute("PRAGMA integrity_check(10)"):
            if text != b"ok":
                yield f"pages: {text.decode('utf-8', 'replace')}"
        connection.execute(f"SELECT key FROM responses INDEXED BY {INDEX} LIMIT 0")
        if n := n_rows_lost(connection, path):
            yield f"the last {n:,} responses are missing: their log was lost"
    except sqlite3.Error as error:
        yield f"pages: {error}"


def _checked(connection: sqlite3.Connection) -> Iterator[tuple[ResponseRow, str]]:
    """Yield each row that can be read, and what is wrong with it."""
    models = {one.number: one.hash for one in readable_models(connection)}
    for row in readable_rows(connection):
        model = models.get(row.model)
        if not row.is_intact:
            yield row, "the response does not match its checksum"
        elif not row.is_of(model):
            yield row, "the request does not match its key"
        else:
            yield row, _NO_MODEL if model is None else ""


def delete(
    path: Path, connection: sqlite3.Connection, rows: Sequence[StoredRow]
) -> int:
    """Delete rows, unless a run has used or replaced them meanwhile; pack the file;
    return how many were deleted. The last row of the store stays: its number counts the
    writes."""
    n = 0
    for start in range(0, len(rows), AT_ONCE):
        connection.execute("BEGIN IMMEDIATE")
        last = last_row(connection)
        for row in rows[start : start + AT_ONCE]:
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
    if n:  # give the space back, which numbers the rows again
        with suppress(sqlite3.OperationalError):  # another process writes: next time
            connection.execute("VACUUM")
            record_last_row(connection, path)
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return n


def new_store(base: Path) -> Path:
    """Return the store of a results folder; create it if it is missing. Raises
    ``StoreError`` if it cannot be created."""
    path = own_place(base / NAME)
    try:
        make_base(base)
        create(path)
    except (OSError, sqlite3.Error) as error:
        raise StoreError(f"{path}: cannot be created: {error}") from None
    return path


def exported(connection: sqlite3.Connection) -> Iterator[dict[str, Any] | None]:
    """Yield responses with their settings as JSON values; ``None`` if damaged."""
    names = model_names(connection)
    for row, fault in _checked(connection):
        if fault not in ("", _NO_MODEL):
            yield None
            continue
        yield {
            "key": row.key.hex(),
            "model": names.get(row.model, UNKNOWN),
            "task": row.task.decode("utf-8", "replace"),
            "prompt_hash": row.prompt.hex(),
            "settings": json.loads(row.settings),
            "response": json.loads(row.body),
            "stored": row.stored,
            "used": row.used,
        }
