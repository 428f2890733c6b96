"""Connection to a Ray cluster: resources, actors and errors. The only module that
imports ray."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import ray
from ray import exceptions

from pytest_evals.errors import EvalsError, ModelError
from pytest_evals.guests.ray.replica import ANNOUNCEMENTS, Replica
from pytest_evals.guests.ray.settings import RaySettings
from pytest_evals.models.spec import ModelSpec

REACH_S = 10.0
"""Timeout of a connection in seconds; Ray itself tries for minutes."""


class ReplicaResources(NamedTuple):
    """Number of replicas, and the devices of each."""

    replicas: int
    gpus: float
    cpus: float


class Ready(NamedTuple):
    """The first of several pending results.

    ``value`` is the result; ``lost`` is the reason why the replica died, and ``ended``
    is true at the end of a stream.
    """

    which: int
    value: Any = None
    lost: str = ""
    ended: bool = False


class Cluster:
    """A connected cluster."""

    def __init__(self, address: str) -> None:
        """Connect to a cluster; an existing connection is reused.

        Raises:
            ModelError: No cluster is at that address.
        """
        self._is_mine = not ray.is_initialized()
        if self._is_mine:
            _join(address)

    def needs(self, settings: RaySettings) -> ReplicaResources:
        """Resources of the replicas, with defaults filled in.

        Raises:
            ModelError: The cluster is too small, also when it is idle.
        """
        there: Mapping[str, float] = ray.cluster_resources()
        n_gpus = there.get("GPU", 0.0)
        gpus = (1.0 if n_gpus else 0.0) if settings.gpus is None else settings.gpus
        most = int(n_gpus / gpus) if gpus else 1
        needs = ReplicaResources(settings.replicas or max(1, most), gpus, settings.cpus)
        for name, each in (("GPU", gpus), ("CPU", settings.cpus)):
            has = there.get(name, 0.0)
            if each and needs.replicas * each > has + 1e-9:
                low = name.lower()
                raise ModelError(
                    f"{needs.replicas} replicas with {low}s={each:g} need "
                    f"{needs.replicas * each:g} {name}s, and the Ray cluster has "
                    f"{has:g}\n  fix: fewer replicas, a smaller {low}s=, or more nodes"
                )
        return needs

    def start(self, spec: ModelSpec, needs: ReplicaResources) -> list[Any]:
        """Start replicas as actors; Ray restarts those that die."""
        actor = ray.remote(concurrency_groups={ANNOUNCEMENTS: 1})(Replica).options(
            num_cpus=needs.cpus,
            num_gpus=needs.gpus,
            max_restarts=-1,
            max_task_retries=0,
            scheduling_strategy="SPREAD",
        )
        return [actor.remote(spec) for _ in range(needs.replicas)]

    def put(self, value: Any) -> Any:
        """Store a value that several replicas receive."""
        return ray.put(value)

    def wait(self, things: Sequence[Any], timeout_s: float) -> Ready | None:
        """The first pending result that is ready; ``None`` on timeout. ``things``: what
        methods of replicas have returned, references or streams of them.

        Raises:
            ModelError: A replica's model is broken, or cannot be opened.
        """
        done, _ = ray.wait(list(things), num_returns=1, timeout=timeout_s)
        if not done:
            return None
        which = next(i for i, one in enumerate(things) if one is done[0])
        try:
            if isinstance(done[0], ray.ObjectRef):
                return Ready(which, ray.get(done[0]))
            reference = next(done[0], None)
            if reference is None:
                return Ready(which, ended=True)
            return Ready(which, ray.get(reference))
        except exceptions.RayTaskError as error:
            raise _model_error(error) from None
        except exceptions.RayError as error:
            return Ready(which, lost=type(error).__name__)

    def end(self, actors: Sequence[Any]) -> None:
        """Stop the replicas, and disconnect if this object connected."""
        for actor in actors:
            ray.kill(actor)
        if self._is_mine:
            ray.shutdown()


def _join(address: str) -> None:
    found: dict[str, Any] = {"address": None if address == "auto" else address}
    if address in ("auto", "local"):
        # Disable usage reports of a cluster that Ray starts here.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        if ":" in address:
            host, _, port = address.removeprefix("ray://").rpartition(":")
            place = (host.strip("[]"), int(port))
            socket.create_connection(place, timeout=REACH_S).close()
        with _same_end():
            # What replicas print may hold prompts, and belongs to their own logs.
            ray.init(**found, log_to_driver=False, logging_level=logging.ERROR)
    except (
        exceptions.RayError,
        OSError,
        OverflowError,
        RuntimeError,
        ValueError,
    ) as error:
        first = str(error).partition("\n")[0]
        raise ModelError(
            f"there is no Ray cluster at {address!r}: {first}\n"
            "  fix: start one by 'ray start --head', or give --evals-ray=local"
        ) from error


@contextmanager
def _same_end() -> Iterator[None]:
    """Restore the SIGTERM handler: Ray replaces it when it starts a local cluster, and
    would end the process at any point."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        in_main = threading.current_thread() is threading.main_thread()
        if in_main and before is not None:
            signal.signal(signal.SIGTERM, before)


def _model_error(error: exceptions.RayTaskError) -> ModelError:
    """The error of a replica's model."""
    cause = error.cause
    if isinstance(cause, EvalsError):
        return ModelError(f"a replica failed: {cause}")
    message = f"{type(cause).__name__}: {cause}"
    fix = ""
    if isinstance(cause, ImportError):
        fix = "\n  fix: install the same packages on all nodes of the cluster"
    return ModelError(f"a replica broke: {message}{fix}")
