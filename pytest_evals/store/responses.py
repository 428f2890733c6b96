"""``responses.sqlite``: every response, keyed by a hash of all its inputs.

Several processes may use the file at the same time, and committed responses survive a
killed process. A damaged file is moved aside, never read and never deleted, and each
row has a checksum. Values are JSON.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import fields
from hashlib import blake2b
from itertools import compress
from pathlib import Path
from typing import Any, TypeVar
from zlib import crc32

from pytest_evals.core.key import RequestKey, canonical
from pytest_evals.core.request import TOP_LOGPROBS, Response
from pytest_evals.core.top_logprobs import read_top_logprobs
from pytest_evals.errors import StoreError
from pytest_evals.masking.registry import has_secrets
from pytest_evals.masking.values import identity, masked
from pytest_evals.store.database import (
    connect,
    create,
    is_damage,
    other_schema,
    own_place,
    set_aside,
)
from pytest_evals.store.files import make_base
from pytest_evals.store.writer import BackgroundWriter

T = TypeVar("T")
Row = tuple[RequestKey, Response]

NAME = "responses.sqlite"
MOST_KEYS = 500
"""Maximum keys per query; SQLite before 3.32 allows 999 values."""
_DEFAULTS = {field.name: field.default for field in fields(Response)}
_INSERT = "INSERT OR REPLACE INTO responses VALUES (?, ?, ?, ?, ?, ?, ?)"


def model_hash(fingerprint: Mapping[str, Any]) -> bytes:
    """Return 32 bytes that are equal for equal fingerprints.

    Raises:
        TypeError: A value is not a JSON value.
    """
    text = canonical(fingerprint).encode("ascii")
    return blake2b(text, digest_size=32).digest()


class Responses:
    """The stored responses of one model.

    Disk errors are not raised: the run continues without the store, and ``notes`` has
    the reason.
    """

    def __init__(
        self, base: Path, fingerprint: Mapping[str, Any], *, writes: bool = True
    ) -> None:
        """Open the file, or create it.

        Args:
            fingerprint: JSON values that are equal for models with equal answers.

        Raises:
            TypeError: The fingerprint contains a value that is not a JSON value.
        """
        self._base, self._path = base, own_place(base / NAME)
        # A key changes no answer, and must not be found in the file.
        self.fingerprint = identity(fingerprint)
        self._fingerprint = canonical(self.fingerprint)
        self._hash = model_hash(self.fingerprint)
        self._writes = writes
        self.notes: list[str] = []
        """Errors of the store, for the report."""
        if self._path.name != NAME:
            self.notes.append(
                f"{other_schema(base / NAME)}; it is not changed, and responses are in "
                f"{str(self._path)!r}"
            )
        self._n_damaged = self._n_secret = 0
        # One connection for the thread that asks and for the one that writes.
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._inode = 0
        self._model: int | None = None
        self._writer: BackgroundWriter[Row] = BackgroundWriter(self._write)
        self._open()

    def read(self, keys: Sequence[RequestKey]) -> dict[RequestKey, Response]:
        """Return the stored responses of these keys, including pending ones."""
        self._writer.flush()
        by_digest = {key.digest(self._hash): key for key in keys}
        return self._tried(lambda c: self._found(c, by_digest)) or {}

    def add(self, key: RequestKey, response: Response) -> None:
        """Queue a response to be stored; it replaces an existing one.

        Not stored are errors, log-probabilities that are not finite, and responses
        that contain a secret: a masked response would be scored differently.
        """
        logprob = response.logprob
        is_sound = logprob is None or logprob == logprob
        if self._writes and not response.error and is_sound:
            self._writer.add((key, response))

    @property
    def secret_notes(self) -> tuple[str, ...]:
        """Return the number of responses that contain secrets, as a note."""
        n = self._n_secret
        if not n:
            return ()
        what = "1 response contains" if n == 1 else f"{n} responses contain"
        return (
            f"{what} a secret, such as the value of an environment variable, and "
            f"{'is' if n == 1 else 'are'} not stored; later runs send "
            f"{'its request' if n == 1 else 'their requests'} again",
        )

    @property
    def info(self) -> Mapping[str, Any] | None:
        """Return the stored info of the model; ``None`` if it was never opened."""

        def read(connection: sqlite3.Connection) -> Mapping[str, Any] | None:
            rows = connection.execute(
                "SELECT info FROM models WHERE id = ?", [self._model]
            ).fetchall()
            return _info(rows[0][0], self._hash) if rows else None

        return self._tried(read)

    def keep_info(self, info: Mapping[str, Any]) -> None:
        """Store the model's info, if it is JSON."""
        try:
            body = json.dumps(masked(dict(info)))
        except (TypeError, ValueError):
            return
        text = f"{body}\n{_checksum(self._hash, body.encode('ascii')):08x}"

        def write(connection: sqlite3.Connection) -> None:
            connection.execute(
                "UPDATE models SET info = ? WHERE id = ?", [text, self._model]
            )

        if self._writes:
            self._tried(write, writing=True)

    def flush(self) -> None:
        """Commit pending responses."""
        self._writer.flush()

    def close(self) -> None:
        """Commit pending responses and close the file."""
        self._writer.close()
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None
        n, self._n_damaged = self._n_damaged, 0
        if n:
            what = "response" if n == 1 else "responses"
            was = "was damaged and is" if n == 1 else "were damaged and are"
            self.notes.append(f"{n} {what} in {str(self._path)!r} {was} sent again")

    def _found(
        self, connection: sqlite3.Connection, by_digest: Mapping[bytes, RequestKey]
    ) -> dict[RequestKey, Response]:
        found: dict[RequestKey, Response] = {}
        n_damaged = 0
        digests = list(by_digest)
        for start in range(0, len(digests), MOST_KEYS):
            some = digests[start : start + MOST_KEYS]
            marks = ",".join("?" * len(some))
            rows = connection.execute(
                "SELECT key, prompt, settings, response, checksum FROM responses "
                f"WHERE key IN ({marks})",
                some,
            )
            for digest, *request, body, checksum in rows:
                # With a damaged index, SQLite finds rows that nobody has asked for.
                key = by_digest.get(digest) if isinstance(digest, bytes) else None
                response = None
                if key and request == [key.prompt, key.settings.encode("ascii")]:
                    response = _response(digest, body, checksum)
                if key and response:
                    found[key] = response
                else:
                    n_damaged += 1
        self._n_damaged += n_damaged
        return found

    def _write(self, rows: Sequence[Row]) -> None:
        now = time.time()
        bodies = [_ENCODE(_given(response)) for _, response in rows]
        if any(response.steps for _, response in rows) or has_secrets(bodies):
            kept = [
                not (has_secrets([body]) or masked(response.steps) != response.steps)
                for body, (_, response) in zip(bodies, rows, strict=True)
            ]
            self._n_secret += kept.count(False)
            rows, bodies = [*compress(rows, kept)], [*compress(bodies, kept)]

        def write(connection: sqlite3.Connection) -> None:
            values = (
                self._values(key, body, now)
                for (key, _), body in zip(rows, bodies, strict=True)
            )
            connection.execute("BEGIN IMMEDIATE")
            try:
                connection.executemany(_INSERT, values)
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

        if self._writes:
            self._tried(write, writing=True)

    def _values(self, key: RequestKey, body: str, now: float) -> tuple[object, ...]:
        digest = key.digest(self._hash)
        checksum = _checksum(digest, body.encode("ascii"))
        return digest, self._model, key.prompt, key.settings, body, now, checksum

    def _tried(
        self, action: Callable[[sqlite3.Connection], T], *, writing: bool = False
    ) -> T | None:
        """Return the result of a database action; ``None`` after a disk error.

        A damaged database is moved aside, and the action is retried on a new one.
        """
        with self._lock:
            for _ in range(2):
                if self._connection is None:
                    return None
                try:
                    return action(self._connection)
                except (sqlite3.Error, UnicodeDecodeError) as error:
                    if not is_damage(error, self._path):
                        self._give_up(error, writing=writing)
                        return None
                    self._replace(error)
            return None

    def _open(self) -> None:
        try:
            self._connect()
        except (sqlite3.Error, UnicodeDecodeError) as error:
            if is_damage(error, self._path):
                self._replace(error)
            else:
                self._give_up(error)
        except (OSError, StoreError) as error:
            self._give_up(error)

    def _connect(self) -> None:
        if not self._path.exists():
            if not self._writes:
                return
            make_base(self._base)
            create(self._path)
        self._inode = self._path.stat().st_ino
        self._connection = connect(self._path)
        if self._writes:
            try:
                self._connection.execute(
                    "INSERT OR IGNORE INTO models (hash, fingerprint) VALUES (?, ?)",
                    [self._hash, self._fingerprint],
                )
            except sqlite3.Error as error:
                if is_damage(error, self._path):
                    raise
                self._give_up(error, writing=True)
        rows = self._connection.execute(
            "SELECT id FROM models WHERE hash = ?", [self._hash]
        ).fetchall()
        self._model = rows[0][0] if rows else None

    def _give_up(self, error: Exception, *, writing: bool = False) -> None:
        """Stop writing; after a failed read, also stop reading."""
        self._writes = False
        what = "responses are not stored"
        if not writing:
            self._connection = None
            what = "responses are neither stored nor reused"
        why = str(error).splitlines()[0]
        self.notes.append(f"{what}: {str(self._path)!r}: {why}")

    def _replace(self, error: Exception) -> None:
        """Move a damaged database aside and create a new one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        try:
            # Another process may have been faster.
            if self._path.stat().st_ino == self._inode:
                place = set_aside(self._path)
                self.notes.append(
                    f"{str(self._path)!r} cannot be used: {error}; it was moved "
                    f"to {str(place)!r}, and a new one was created"
                )
            self._connect()
        except (OSError, StoreError, sqlite3.Error) as fault:
            self._give_up(fault)


_ENCODE = json.JSONEncoder(separators=(",", ":")).encode


def _given(response: Response) -> Mapping[str, Any]:
    """The fields of a response that differ from their defaults."""
    return {
        name: value
        for name, default in _DEFAULTS.items()
        if (value := getattr(response, name)) != default
    }


def _checksum(digest: bytes, body: bytes) -> int:
    return crc32(body, crc32(digest))


def _response(digest: bytes, body: object, checksum: object) -> Response | None:
    """Return the response of a row, ``None`` if the row is damaged. ``body`` is the
    stored bytes, not decoded: decoding with replacement could make two different
    values equal."""
    if not isinstance(body, bytes) or checksum != _checksum(digest, body):
        return None
    try:
        given = json.loads(body)
        if TOP_LOGPROBS in given:
            given[TOP_LOGPROBS] = read_top_logprobs(given[TOP_LOGPROBS])
        if "steps" in given:
            given["steps"] = tuple(given["steps"])
        return Response(**given)
    except (TypeError, ValueError, RecursionError):
        return None


def _info(stored: object, model: bytes) -> Mapping[str, Any] | None:
    """Return the stored info of a model, ``None`` if it is missing or damaged."""
    if not isinstance(stored, bytes):
        return None
    body, end, checksum = stored.partition(b"\n")
    # Stores of earlier versions have no checksum here.
    if end and checksum != b"%08x" % _checksum(model, body):
        return None
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and found else None


def stored_since(base: Path, moment: float) -> int:
    """Return the number of responses that any process has stored since a moment; 0
    if the store cannot be read. ``moment``: Unix time."""
    try:
        with closing(connect(own_place(base / NAME))) as connection:
            ((n,),) = connection.execute(
                "SELECT count(*) FROM responses WHERE stored >= ?", [moment]
            ).fetchall()
    except (OSError, sqlite3.Error):
        return 0
    return int(n)
