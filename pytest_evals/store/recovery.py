"""Rows that are taken over from a store that was damaged, removed or replaced."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any

from pytest_evals.store.database import connect_read_only
from pytest_evals.store.rows import is_intact

Values = tuple[Any, ...]
"""The columns of a row of responses."""
_NO_MODEL = 0


def copy_intact(path: Path, connection: sqlite3.Connection) -> int:
    """Copy the rows of a damaged store that match their checksums into a new one.

    Returns:
        Their number.

    Raises:
        sqlite3.Error: The new store cannot be written.
    """
    try:
        old = connect_read_only(path)
    except (OSError, sqlite3.Error, UnicodeDecodeError):
        return 0
    connection.execute("BEGIN IMMEDIATE")
    with closing(old):
        models = _copied_models(old, connection)
        for order in ("ASC", "DESC"):  # reading stops at a damaged page
            connection.executemany(
                "INSERT OR IGNORE INTO responses VALUES (?, ?, ?, ?, ?, ?, ?)",
                _intact_rows(old, order, models),
            )
    connection.execute("COMMIT")
    ((n,),) = connection.execute("SELECT count(*) FROM responses").fetchall()
    return int(n)


def _copied_models(
    old: sqlite3.Connection, new: sqlite3.Connection
) -> Mapping[object, int]:
    """Copy the models; return the new id of each old one."""
    ids: dict[object, int] = {}
    with suppress(sqlite3.Error):
        for number, hash_, fingerprint, info in old.execute(
            "SELECT id, hash, fingerprint, info FROM models NOT INDEXED"
        ):
            is_text = isinstance(fingerprint, bytes) and isinstance(info, bytes)
            if is_text and blake2b(fingerprint, digest_size=32).digest() == hash_:
                texts = fingerprint.decode("ascii"), info.decode("ascii", "replace")
                new.execute(
                    "INSERT OR IGNORE INTO models (hash, fingerprint, info) "
                    "VALUES (?, ?, ?)",
                    [hash_, *texts],
                )
                query = "SELECT id FROM models WHERE hash = ?"
                ((ids[number],),) = new.execute(query, [hash_]).fetchall()
    return ids


def _intact_rows(
    old: sqlite3.Connection, order: str, models: Mapping[object, int]
) -> Iterator[Values]:
    with suppress(sqlite3.Error):
        for key, model, prompt, settings, body, stored, checksum in old.execute(
            "SELECT key, model, prompt, settings, response, stored, checksum "
            f"FROM responses NOT INDEXED ORDER BY rowid {order}"
        ):
            if (
                is_intact(key, body, checksum)
                and isinstance(prompt, bytes)
                and isinstance(settings, bytes)
                and isinstance(stored, float)
            ):
                texts = settings.decode("ascii", "replace"), body.decode("ascii")
                number = models.get(model, _NO_MODEL)
                yield key, number, prompt, *texts, stored, checksum


def rows_since(
    connection: sqlite3.Connection, row: int, model: int | None
) -> list[Values]:
    """Return the rows of a model after a row, in the form in which they were written.

    Raises:
        sqlite3.Error: They cannot be read.
    """
    rows = connection.execute(
        "SELECT key, prompt, settings, response, stored, checksum FROM responses "
        "WHERE rowid > ? AND model = ?",
        [row, model],
    )
    return [
        (key, prompt, settings.decode("ascii"), body.decode("ascii"), stored, checksum)
        for key, prompt, settings, body, stored, checksum in rows
    ]
