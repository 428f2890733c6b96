"""Cache misses explained: the stored request that is nearest to a given one."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from pytest_evals.core.key import RequestKey, named_settings
from pytest_evals.errors import StoreError
from pytest_evals.store.database import connect, own_place
from pytest_evals.store.responses import NAME


class KeyDifference(NamedTuple):
    """One part of a key that differs; ``None`` on the side where it is missing."""

    name: str
    now: Any
    before: Any


class NearestRequest(NamedTuple):
    """A stored request. If neither settings nor models differ and the prompt is the
    same, it is the request itself."""

    key: RequestKey  # Its prompt may differ
    stored: float  # Unix time
    settings: tuple[KeyDifference, ...]
    model: tuple[KeyDifference, ...]

    @property
    def distance(self) -> int:
        """The number of differences."""
        return len(self.settings) + len(self.model)


def nearest(
    base: Path,
    key: RequestKey,
    fingerprint: Mapping[str, Any],
    prompts: Iterable[bytes] = (),
) -> NearestRequest | None:
    """Return the stored request with the fewest differences. ``prompts``: hashes of
    earlier prompts of the document, the latest first; used if the prompt itself is not
    stored. Raises ``StoreError`` if the store cannot be read."""
    path = own_place(base / NAME)
    if not path.exists():
        return None
    try:
        with closing(connect(path)) as connection:
            for prompt in (key.prompt, *prompts):
                found = [
                    _measured(row, key, fingerprint)
                    for row in _intact_rows(connection, prompt)
                ]
                if found:
                    return min(found, key=lambda one: (one.distance, -one.stored))
    except (OSError, sqlite3.Error, UnicodeDecodeError) as error:
        raise StoreError(f"cannot read {str(path)!r}: {error}") from error
    return None


Row = tuple[RequestKey, float, str]  # Request, time, and fingerprint of the model


def _intact_rows(connection: sqlite3.Connection, prompt: bytes) -> Iterator[Row]:
    """Yield the undamaged rows of a prompt: their keys are hashes of every value read
    here except the time."""
    rows = connection.execute(
        "SELECT r.key, r.settings, r.stored, m.hash, m.fingerprint FROM responses r "
        "JOIN models m ON m.id = r.model WHERE r.prompt = ?",
        [prompt],
    )
    for row in rows:
        match row:
            case (key, bytes() as settings, float() as stored, model, bytes() as text):
                if model != blake2b(text, digest_size=32).digest():
                    continue
                with suppress(UnicodeDecodeError):
                    request = RequestKey(prompt, settings.decode("ascii"))
                    if request.digest(model) == key:
                        yield request, stored, text.decode("ascii")


def _measured(
    row: Row, key: RequestKey, fingerprint: Mapping[str, Any]
) -> NearestRequest:
    request, stored, model = row
    return NearestRequest(
        request,
        stored,
        _changes(named_settings(key.settings), named_settings(request.settings)),
        _changes(_flat(fingerprint), _flat(json.loads(model))),
    )


def _changes(
    now: Mapping[str, Any], before: Mapping[str, Any]
) -> tuple[KeyDifference, ...]:
    return tuple(
        KeyDifference(name, now.get(name), before.get(name))
        for name in dict.fromkeys([*now, *before])
        if now.get(name) != before.get(name)
    )


def _flat(value: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Return ``{"model": {"files": …}}`` as ``{"model/files": …}``."""
    flat: dict[str, Any] = {}
    for name, inner in value.items():
        if isinstance(inner, dict) and inner:
            flat |= _flat(inner, f"{above}{name}/")
        else:
            flat[f"{above}{name}"] = inner
    return flat
