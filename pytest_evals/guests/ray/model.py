"""A model with replicas on a Ray cluster.

Behaves like a single model: each request is answered once. Stores, hooks and scoring
stay in this process.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import cached_property
from typing import Any

from pytest_evals.core.model import RequestTokenizer
from pytest_evals.core.request import Prompt, Request, Response
from pytest_evals.guests.ray.cluster import Cluster
from pytest_evals.guests.ray.pool import ReplicaPool
from pytest_evals.guests.ray.scheduler import WorkQueue
from pytest_evals.guests.ray.settings import RaySettings
from pytest_evals.models.checkpoint import quick_hash
from pytest_evals.models.prefetch import BatchModel
from pytest_evals.models.registry import (
    fingerprint_of,
    is_deterministic,
    open_tokenizer,
)
from pytest_evals.models.spec import ModelSpec


class RayModel(BatchModel):
    """Replicas of one model."""

    works_ahead = True
    """Replicas continue while this process scores."""

    def __init__(self, spec: ModelSpec, settings: RaySettings) -> None:
        """Connect to the cluster, start the replicas, and wait for the first one; the
        others join when their models are open.

        Raises:
            ModelError: There is no cluster, or it has no room, or the model cannot be
                opened.
        """
        self.name = str(spec)
        self._spec = spec
        self.is_deterministic: bool = is_deterministic(spec)
        self._cluster = Cluster(settings.address)
        self._actors: list[Any] = []
        try:
            needs = self._cluster.needs(settings)
            self.replicas: int = needs.replicas
            self._actors = self._cluster.start(spec, needs)
            expected = fingerprint_of(spec, quick_hash)
            self._pool = ReplicaPool(self._cluster, self._actors, expected)
            info = self._pool.first().info
        except BaseException:
            self.close()
            raise
        self.info: Mapping[str, Any] = {**info, "replicas": self.replicas}

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Response]]:
        """Answer all requests, in the order of the replicas' responses.

        Raises:
            ModelError: The model is broken, or too many replicas are lost.
        """
        queue, self._pool.next_window = self._pool.next_window, None
        if queue is None or queue.requests != requests:
            queue = WorkQueue(requests, self.replicas)
        # Responses are received in a thread, also while documents are scored here.
        return self._answers(requests, self._pool.answer(queue), nullcontext)

    def expect(self, requests: Sequence[Request]) -> None:
        """Assign each replica its first share of the next requests, which it prepares
        while it works on the current ones."""
        self._pool.next_window = WorkQueue(requests, self.replicas)

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings about the results so far."""
        notes = self._pool.notes
        n, n_open, n_all = self._pool.n_lost, len(self._pool.opened), self.replicas
        if n:
            message = "replica was" if n == 1 else "replicas were"
            lost = f"{n} {message} lost; requests without a response were sent again"
            notes = (*notes, f"{self.name}: {lost}")
        if n_open < n_all:
            state = f"only {n_open} of {n_all} replicas were ever open"
            notes = (*notes, f"{self.name}: {state}")
        return notes

    def render(self, prompt: Prompt) -> Prompt:
        """The rendered chat, by the tokenizer on this machine."""
        return self._cutter.render(prompt) if self._cutter else prompt

    @cached_property
    def _cutter(self) -> RequestTokenizer | None:
        return open_tokenizer(self._spec)

    def close(self) -> None:
        """Stop the replicas and disconnect from the cluster."""
        super().close()
        self._cluster.end(self._actors)
        self._actors = []
