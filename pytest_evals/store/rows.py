"""Rows of ``responses.sqlite``: a response as JSON, with a checksum."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from hashlib import blake2b
from typing import Any, NamedTuple
from zlib import crc32

from pytest_evals.core.request import TOP_LOGPROBS, Response
from pytest_evals.core.returned import RETURNED
from pytest_evals.core.top_logprobs import read_top_logprobs

_DEFAULTS = {field.name: field.default for field in fields(Response)}
_SEQUENCES = {name for name in RETURNED if _DEFAULTS[name] == ()}
_ENCODE = json.JSONEncoder(separators=(",", ":")).encode


def response_body(response: Response) -> str:
    """Return the fields of a response that differ from their defaults, as JSON."""
    return _ENCODE(
        {
            name: value
            for name, default in _DEFAULTS.items()
            if (value := getattr(response, name)) != default
        }
    )


def row_checksum(digest: bytes, body: bytes) -> int:
    """Return the checksum of a row: of its key and its JSON."""
    return crc32(body, crc32(digest))


def row_response(digest: object, body: object, checksum: object) -> Response | None:
    """Return the response of a row, ``None`` if the row is damaged. ``body`` is the
    stored bytes, not decoded: decoding with replacement could make two different
    values equal."""
    if not isinstance(digest, bytes) or not isinstance(body, bytes):
        return None
    if checksum != row_checksum(digest, body):
        return None
    try:
        given = json.loads(body)
        if not isinstance(given, dict):
            return None
        if TOP_LOGPROBS in given:
            given[TOP_LOGPROBS] = read_top_logprobs(given[TOP_LOGPROBS])
        for name in _SEQUENCES & given.keys():
            given[name] = tuple(given[name])
        return Response(**given)
    except (TypeError, ValueError, RecursionError):
        return None


class ResponseRow(NamedTuple):
    """A row with its last use, as SQLite returns it: a damaged one may have any
    types. Times are numbers that are not in the future."""

    number: int
    key: bytes
    model: int
    prompt: bytes
    settings: bytes
    body: bytes
    checksum: int
    stored: float
    task: bytes
    used: float

    @property
    def is_intact(self) -> bool:
        """Whether the response matches its checksum and can be read."""
        return row_response(self.key, self.body, self.checksum) is not None

    def is_of(self, model: bytes | None) -> bool:
        """Whether the request matches its key; of an unknown model, whether it can be
        read. ``model``: hash of the model."""
        try:
            json.loads(self.settings)
        except (TypeError, ValueError, RecursionError):
            return False
        parts = model or b"", self.prompt, self.settings
        if not all(isinstance(part, bytes) for part in parts):
            return False
        digest = blake2b(b"".join(parts), digest_size=32).digest()
        return model is None or digest == self.key


class ModelRow(NamedTuple):
    """A model, as SQLite returns it."""

    number: int
    hash: bytes
    fingerprint: bytes
    info: bytes

    @property
    def is_intact(self) -> bool:
        """Whether the fingerprint matches the hash, and the info its checksum."""
        return (
            isinstance(self.fingerprint, bytes)
            and blake2b(self.fingerprint, digest_size=32).digest() == self.hash
            and (self.info == b"{}" or stored_info(self.info, self.hash) is not None)
        )


def info_text(info: Mapping[str, Any], model: bytes) -> str:
    """Return the info of a model as JSON with a checksum; ``TypeError`` or
    ``ValueError`` if a value is not a JSON value."""
    body = json.dumps(info)
    return f"{body}\n{row_checksum(model, body.encode('ascii')):08x}"


def stored_info(stored: object, model: bytes) -> Mapping[str, Any] | None:
    """Return the stored info of a model, ``None`` if it is missing or damaged."""
    if not isinstance(stored, bytes):
        return None
    body, end, checksum = stored.partition(b"\n")
    # Stores of earlier versions have no checksum here.
    if end and checksum != b"%08x" % row_checksum(model, body):
        return None
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and found else None
