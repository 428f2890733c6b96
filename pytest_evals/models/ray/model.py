"""A model whose replicas stand on a Ray cluster.

It answers as one model does: each request once, whatever replica was asked. Stores,
hooks and scores stay in this process.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from pytest_evals.core.cut import Cutter
from pytest_evals.core.model import Model
from pytest_evals.core.request import Prompt, Request, Response
from pytest_evals.models.ray.cluster import Cluster
from pytest_evals.models.ray.pool import ReplicaPool
from pytest_evals.models.ray.replica import quick_hash
from pytest_evals.models.ray.scheduler import WorkQueue
from pytest_evals.models.ray.settings import RaySettings
from pytest_evals.models.registry import fingerprint_of, open_cutter
from pytest_evals.models.spec import ModelSpec


class RayModel(Model):
    """Replicas of one model, as one."""

    works_ahead = True
    """Replicas go on while this process scores."""

    def __init__(self, spec: ModelSpec, settings: RaySettings) -> None:
        """Join the cluster, start the replicas, and wait for the first one; the others
        help as soon as they are open.

        Raises:
            ModelError: There is no cluster, or it has no room, or the model cannot be
                opened.
        """
        self.name = str(spec)
        self._spec = spec
        self._cluster = Cluster(settings.address)
        self._actors: list[Any] = []
        try:
            needs = self._cluster.needs(settings)
            self._n = needs.replicas
            self._actors = self._cluster.start(spec, needs)
            expected = fingerprint_of(spec, quick_hash)
            self._crew = ReplicaPool(self._cluster, self._actors, expected)
            info = self._crew.first().info
        except BaseException:
            self.close()
            raise
        self.info: Mapping[str, Any] = {**info, "replicas": self._n}

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Response]]:
        """Answer all requests, in the order in which the replicas do.

        Raises:
            ModelError: The model is broken, or too many replicas are lost.
        """
        return self._crew.answer(requests, WorkQueue(requests, self._n))

    @property
    def notes(self) -> tuple[str, ...]:
        """What whoever reads the numbers given so far should know of them."""
        notes = self._crew.notes
        n, n_open, n_all = self._crew.n_lost, len(self._crew.opened), self._n
        if n:
            what = "replica was" if n == 1 else "replicas were"
            lost = f"{n} {what} lost; what was not answered was asked again"
            notes = (*notes, f"{self.name}: {lost}")
        if n_open < n_all:
            told = f"only {n_open} of {n_all} replicas were ever open"
            notes = (*notes, f"{self.name}: {told}")
        return notes

    def render(self, prompt: Prompt) -> Prompt:
        """The text of a chat, by the tokenizer on this machine."""
        return self._cutter.render(prompt) if self._cutter else prompt

    @cached_property
    def _cutter(self) -> Cutter | None:
        return open_cutter(self._spec)

    def close(self) -> None:
        """End the replicas, and leave the cluster."""
        self._cluster.end(self._actors)
        self._actors = []
