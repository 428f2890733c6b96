"""Ray actor with one model.

Requests and responses are records of this package, which must be installed on the
nodes. A restarted replica opens its model again.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pytest_evals.core.model import Model
from pytest_evals.core.request import Request, Response
from pytest_evals.models.checkpoint import quick_hash
from pytest_evals.models.registry import fingerprint_of, open_model
from pytest_evals.models.spec import ModelSpec

PAUSE_S = 0.1
"""Maximum delay of a response in seconds, to send several at once."""
ANNOUNCEMENTS = "announcements"
"""Concurrency group of calls that run while the model answers."""


class OpenedReplica(NamedTuple):
    """A replica with an open model: the model's ``info``, the node's name, and a
    fingerprint by :func:`quick_hash`."""

    info: Mapping[str, Any]
    node: str
    fingerprint: Mapping[str, Any] | None


class ResponseBatch(NamedTuple):
    """Responses with their positions among the requests, and the model's warnings so
    far."""

    responses: list[tuple[int, Response]]
    notes: tuple[str, ...]


class Replica:
    """A Ray actor."""

    def __init__(self, spec: ModelSpec) -> None:
        """Does not open the model, so that errors are raised by a method."""
        self._spec = spec
        self._model: Model | None = None
        self._expected: Sequence[Request] = ()

    def started(self) -> str:
        """The node's name, once the actor is placed."""
        return platform.node()

    def open(self) -> OpenedReplica:
        """Open the model unless it is open.

        Raises:
            EvalsError: It cannot be opened.
        """
        info = dict(self._opened().info)
        return OpenedReplica(
            info, platform.node(), fingerprint_of(self._spec, quick_hash)
        )

    def expect(self, requests: Sequence[Request]) -> None:
        """Announce the requests of the next call of :meth:`answer` during the current
        one. Runs in another thread, so the model gets them from :meth:`answer`."""
        self._expected = requests

    def answer(self, requests: Sequence[Request]) -> Iterator[ResponseBatch]:
        """Responses in batches.

        Raises:
            EvalsError: The model is broken.
        """
        model = self._opened()
        if self._expected == requests:
            self._expected = ()  # announced too late
        some: list[tuple[int, Response]] = []
        sent = time.monotonic()
        for pair in model.answer(requests):
            if self._expected and model.works_ahead:
                expected, self._expected = self._expected, ()
                model.expect(expected)
            some.append(pair)
            if time.monotonic() - sent >= PAUSE_S:
                yield ResponseBatch(some, tuple(model.notes))
                some, sent = [], time.monotonic()
        yield ResponseBatch(some, tuple(model.notes))

    def _opened(self) -> Model:
        if self._model is None:
            self._model = open_model(self._spec)
        return self._model
