"""``responses.sqlite``: every response, keyed by a hash of all its inputs.

Several processes may use the file at the same time, and committed responses survive a
killed process. A damaged file is moved aside and never deleted; each row has a
checksum. Values are JSON.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from itertools import compress
from pathlib import Path
from typing import Any

from pytest_evals.core.key import RequestKey, canonical
from pytest_evals.core.request import Response
from pytest_evals.masking.registry import has_secrets
from pytest_evals.masking.values import identity, masked
from pytest_evals.store.connection import BackgroundWriter, StoreFile, counted
from pytest_evals.store.database import (
    USES,
    connect,
    is_damage,
    other_schema,
    own_place,
)
from pytest_evals.store.recovery import Values, check, record_last_row
from pytest_evals.store.rows import (
    info_text,
    response_body,
    row_checksum,
    row_response,
    stored_info,
)

Row = tuple[RequestKey, Response]

NAME = "responses.sqlite"
MOST_KEYS = 500  # Maximum keys per query; SQLite before 3.32 allows 999 values
RETRY_S = 5.0  # Seconds after a failed write until the next one
CHECKPOINT_S = 1.0
"""Seconds between two checkpoints: a killed process leaves no longer log."""
WAITING = 2**28
"""Maximum characters of responses that wait for a store that cannot be written."""
USES_AT_ONCE = 1_000  # Uses of responses that are written together
_INSERT = "INSERT OR REPLACE INTO responses VALUES (?, ?, ?, ?, ?, ?, ?)"


def model_hash(fingerprint: Mapping[str, Any]) -> bytes:
    """Return 32 bytes that are equal for equal fingerprints; ``TypeError`` if a value
    is not a JSON value."""
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
        """Open the file, or create it. ``fingerprint``: JSON values that are equal for
        models with equal answers. Raises ``TypeError`` if the fingerprint contains a
        value that is not a JSON value."""
        path = own_place(base / NAME)
        # A key changes no answer, and must not be found in the file.
        self.fingerprint = identity(fingerprint)
        self._hash = model_hash(self.fingerprint)
        self._writes = writes
        self._notes: list[str] = []
        if path.name != NAME:
            self._notes.append(
                f"{other_schema(base / NAME)}; it is not changed, and responses are in "
                f"{str(path)!r}"
            )
        self._n_damaged = self._n_secret = self._n_dropped = 0
        self._n_again = self._size = 0
        self._is_checked = self._is_closed = False
        self._checkpointed = 0.0
        self._unwritten: list[Values] = []
        self._uses: list[tuple[bytes, str, float]] = []
        self._file = StoreFile(
            path, self._hash, canonical(self.fingerprint), writes=writes
        )
        self._writer: BackgroundWriter[Row] = BackgroundWriter(self._write)

    def read(self, keys: Sequence[RequestKey]) -> dict[RequestKey, Response]:
        """Return the stored responses of these keys, including pending ones."""
        self._writer.flush()
        by_digest = {key.digest(self._hash): key for key in keys}
        return self._file.tried(lambda c: self._found(c, by_digest)) or {}

    def add(self, key: RequestKey, response: Response) -> None:
        """Queue a response to be stored; it replaces an existing one.

        Not stored are errors, log-probabilities that are not finite, and responses
        that contain a secret: a masked response would be scored differently. Refusals
        are stored: the task determines whether they are errors.
        """
        if response.is_refusal:
            response = replace(response, error="")
        logprob = response.logprob
        is_sound = logprob is None or logprob == logprob
        if self._writes and not response.error and is_sound:
            self._writer.add((key, response))

    def use(self, keys: Sequence[RequestKey | None], tasks: Sequence[str]) -> None:
        """Record that responses are used now. ``tasks``: one each; empty if unknown."""
        if not self._writes:
            return
        now = time.time()
        names = tasks or [""] * len(keys)
        with self._file.lock:
            self._uses += [
                (key.digest(self._hash), name, now)
                for key, name in zip(keys, names, strict=True)
                if key is not None
            ]
        if len(self._uses) >= USES_AT_ONCE:
            self._commit_uses()

    def _commit_uses(self) -> None:
        """Write the pending uses; a failure loses them, and nothing else."""

        def write(connection: sqlite3.Connection) -> None:
            try:
                with connection:
                    connection.execute("BEGIN IMMEDIATE")
                    connection.execute(USES)
                    query = "INSERT OR REPLACE INTO uses VALUES (?, ?, ?)"
                    connection.executemany(query, rows)
            except sqlite3.Error as error:
                if is_damage(error, self._file.path):
                    raise

        with self._file.lock:
            rows, self._uses = self._uses, []
            if rows:
                self._file.tried(write)

    @property
    def notes(self) -> list[str]:
        """Errors of the store, for the report."""
        path, fault = repr(str(self._file.path)), self._file.fault
        found = [*self._notes, *self._file.notes]
        if n := len(self._unwritten) + self._n_dropped:
            found.append(f"{counted(n, 'is', 'are')} not stored: {path}: {fault}")
        elif fault and self._writes and (self._file.is_open or self._is_closed):
            found.append(
                f"the store could not be used for a time: {path}: {fault}; all "
                "responses are stored now"
            )
        elif fault:
            found.append(f"stored responses are not reused: {path}: {fault}")
        if (n := self._n_again) and not self._unwritten:
            was = counted(n, "of this run was", "of this run were")
            found.append(f"{was} stored in {path} again")
        if n := self._n_damaged:
            one, many = "was damaged and is", "were damaged and are"
            message = counted(n, f"in {path} {one}", f"in {path} {many}")
            found.append(f"{message} sent again")
        return found

    @property
    def secret_notes(self) -> tuple[str, ...]:
        """Return the number of responses that contain secrets, as a note."""
        n = self._n_secret
        if not n:
            return ()
        message = counted(n, "contains", "contain")
        return (
            f"{message} a secret, such as the value of an environment variable, and "
            f"{'is' if n == 1 else 'are'} not stored; later runs send "
            f"{'its request' if n == 1 else 'their requests'} again",
        )

    @property
    def info(self) -> Mapping[str, Any] | None:
        """Return the stored info of the model; ``None`` if it was never opened."""

        def read(connection: sqlite3.Connection) -> Mapping[str, Any] | None:
            query = "SELECT info FROM models WHERE hash = ?"
            rows = connection.execute(query, [self._hash]).fetchall()
            return stored_info(rows[0][0], self._hash) if rows else None

        return self._file.tried(read)

    def keep_info(self, info: Mapping[str, Any]) -> None:
        """Store the model's info, if it is JSON."""
        try:
            text = info_text(masked(dict(info)), self._hash)
        except (TypeError, ValueError):
            return

        if self._writes:
            query = "UPDATE models SET info = ? WHERE hash = ?"
            self._file.tried(lambda c: c.execute(query, [text, self._hash]))

    def flush(self) -> None:
        """Commit pending responses, and those that could not be written before."""
        self._writer.flush()
        with self._file.lock:
            self._commit(is_last=True)
            self._commit_uses()

    def close(self) -> None:
        """Commit pending responses and close the file."""
        self._writer.close()
        with self._file.lock:
            self._commit(is_last=True)
            self._commit_uses()
            self._is_closed = True
            self._file.close()

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
                    response = row_response(digest, body, checksum)
                if key and response:
                    found[key] = response
                else:
                    n_damaged += 1
        if len(found) < len(digests) and not self._is_checked:
            check(connection, pages=n_damaged > 0)
            self._is_checked = True
        self._n_damaged += n_damaged
        return found

    def _write(self, rows: Sequence[Row]) -> None:
        now = time.time()
        bodies = [response_body(response) for _, response in rows]
        has_more = any(response.returned for _, response in rows)
        if has_more or has_secrets(bodies):
            kept = [
                not (has_secrets([body]) or masked(more := response.returned) != more)
                for body, (_, response) in zip(bodies, rows, strict=True)
            ]
            self._n_secret += kept.count(False)
            rows, bodies = [*compress(rows, kept)], [*compress(bodies, kept)]
        with self._file.lock:
            for (key, _), body in zip(rows, bodies, strict=True):
                self._unwritten.append(self._values(key, body, now))
                self._size += len(body)
            self._commit()

    def _values(self, key: RequestKey, body: str, now: float) -> Values:
        digest = key.digest(self._hash)
        checksum = row_checksum(digest, body.encode("ascii"))
        return digest, key.prompt, key.settings, body, now, checksum

    def _commit(self, *, is_last: bool = False) -> None:
        """Write the responses that are not written; after an error, only from time to
        time, and one by one at the end: a part of them may still fit."""
        if not self._writes:
            return
        file = self._file
        if file.fault and not is_last and time.monotonic() < file.failed_at + RETRY_S:
            self._drop_some()
            return
        rejected = file.follow()
        self._n_again += len(rejected)
        self._unwritten[:0] = rejected
        if self._unwritten:
            file.open()
        n = 1 if is_last and file.fault else len(self._unwritten)
        while rows := self._unwritten[:n]:
            if not file.tried(partial(self._insert, rows)):
                self._drop_some()
                return
            del self._unwritten[:n]
        self._size = 0
        if is_last:
            file.tried(self._checkpoint)

    def _insert(self, rows: Sequence[Values], connection: sqlite3.Connection) -> bool:
        model = self._file.model(connection)
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            values = ((key, model, *others) for key, *others in rows)
            connection.executemany(_INSERT, values)
        record_last_row(connection, self._file.path)
        if time.monotonic() > self._checkpointed + CHECKPOINT_S:
            self._checkpoint(connection)
        return True

    def _checkpoint(self, connection: sqlite3.Connection) -> None:
        """Move the log into the file, so that less depends on the log; a later attempt
        may succeed."""
        with suppress(sqlite3.OperationalError):
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        self._checkpointed = time.monotonic()

    def _drop_some(self) -> None:
        """Keep the responses that wait within their limit."""
        while self._size > WAITING:
            self._size -= len(self._unwritten.pop(0)[3])
            self._n_dropped += 1


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
