"""What runs on the nodes of the cluster: one model, which is opened there.

Requests come in and responses go out, as records of this package, which must be
installed on the nodes. A replica that is restarted opens its model again.
"""

from __future__ import annotations

import hashlib
import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pytest_evals.core.model import Model
from pytest_evals.core.request import Request, Response
from pytest_evals.models.registry import fingerprint_of, open_model
from pytest_evals.models.spec import ModelSpec

PAUSE_S = 0.1
"""Seconds that a response may wait for others, so that they travel together."""
SEEN = 2**20
"""Bytes that are read at both ends of a large file."""


class OpenedReplica(NamedTuple):
    """What a replica says once its model is open: the model's ``info``, the name of the
    machine, and a fingerprint by :func:`quick_hash`."""

    info: Mapping[str, Any]
    node: str
    fingerprint: Mapping[str, Any] | None


class ResponseBatch(NamedTuple):
    """Some responses, each with its position among the requests; and the model's notes
    so far."""

    responses: list[tuple[int, Response]]
    notes: tuple[str, ...]


class Replica:
    """A Ray actor."""

    def __init__(self, spec: ModelSpec) -> None:
        """Nothing is opened yet: what goes wrong then is told by a method's error."""
        self._spec = spec
        self._model: Model | None = None

    def started(self) -> str:
        """The name of the machine, as soon as there is a place on it."""
        return platform.node()

    def open(self) -> OpenedReplica:
        """Open the model, if it is not open.

        Raises:
            EvalsError: It cannot be opened.
        """
        info = dict(self._opened().info)
        return OpenedReplica(
            info, platform.node(), fingerprint_of(self._spec, quick_hash)
        )

    def answer(self, requests: Sequence[Request]) -> Iterator[ResponseBatch]:
        """Responses as the model gives them, some at a time.

        Raises:
            EvalsError: The model is broken.
        """
        model = self._opened()
        some: list[tuple[int, Response]] = []
        sent = time.monotonic()
        for pair in model.answer(requests):
            some.append(pair)
            if time.monotonic() - sent >= PAUSE_S:
                yield ResponseBatch(some, tuple(model.notes))
                some, sent = [], time.monotonic()
        yield ResponseBatch(some, tuple(model.notes))

    def _opened(self) -> Model:
        if self._model is None:
            self._model = open_model(self._spec)
        return self._model


def quick_hash(path: Path) -> str:
    """A hash of a file's size and of its ends, for a look whether two machines have the
    same weights; small files are read whole.

    Raises:
        OSError: It cannot be read.
    """
    with path.open("rb") as stream:
        size = path.stat().st_size
        total = hashlib.sha256(b"%d\0" % size + stream.read(SEEN))
        if size > SEEN:
            stream.seek(max(SEEN, size - SEEN))
            total.update(stream.read(SEEN))
    return total.hexdigest()
