"""Replica pool: state of the replicas, work assignment, and recovery of lost
replicas."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_evals.core.request import Response
from pytest_evals.errors import ModelError
from pytest_evals.guests.ray.cluster import Cluster, Ready
from pytest_evals.guests.ray.replica import ANNOUNCEMENTS, OpenedReplica, ResponseBatch
from pytest_evals.guests.ray.scheduler import BLAMED_AT, WorkQueue, WorkShare

DEPTH = 2
"""Maximum of assignments of a replica: the current one and a queued one."""
LOOK_S = 1.0
"""Polling interval in seconds, so that Ctrl-C is handled."""
ROOM_S = 600.0
"""Timeout in seconds for the cluster to place the first replica."""
MOST_LOST = 10
"""Maximum of replicas lost without a response in between."""


@dataclass(slots=True)
class _Assignment:
    """A share of the requests that a replica works on, the stream of its responses, and
    the positions with a response."""

    stream: Any
    share: WorkShare
    answered: set[int] = field(default_factory=set)


@dataclass(slots=True, eq=False)
class _PooledReplica:
    """A replica in the pool.

    Args:
        coming: The pending result until it is open; then ``None``.
        has_place: Whether the cluster has found a place for it.
        work: Its assignments, in order.
    """

    actor: Any
    coming: Any
    has_place: bool = False
    work: deque[_Assignment] = field(default_factory=deque)
    notes: tuple[str, ...] = ()
    opened: OpenedReplica | None = None


class ReplicaPool:
    """All replicas of one model."""

    def __init__(
        self,
        cluster: Cluster,
        actors: Sequence[Any],
        expected: Mapping[str, Any] | None,
    ) -> None:
        """Start opening the models on all replicas. ``expected``: the fingerprint that
        they must have; ``None`` for any."""
        self._cluster = cluster
        self._members = [_PooledReplica(one, one.started.remote()) for one in actors]
        self._expected = expected
        self._lost_in_a_row = 0
        self._placed = time.monotonic()
        self.n_lost = 0
        """Number of lost replicas so far."""
        self.next_window: WorkQueue | None = None
        """The requests that follow the current ones."""

    def first(self) -> OpenedReplica:
        """The first replica that has opened its model.

        Raises:
            ModelError: None can be.
        """
        while True:
            for member in self._members:
                if member.opened is not None:
                    return member.opened
            for _ in self._events(WorkQueue([], 0)):
                pass

    @property
    def opened(self) -> list[OpenedReplica]:
        """The replicas that have opened their models so far."""
        return [m.opened for m in self._members if m.opened is not None]

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings of all replicas, each once."""
        return tuple(dict.fromkeys(n for m in self._members for n in m.notes))

    def answer(self, queue: WorkQueue) -> Iterator[Sequence[tuple[int, Response]]]:
        """Assign requests until all have responses; yields those that arrive together,
        or none after a second without any.

        Raises:
            ModelError: A model is broken, or too many replicas are lost.
        """
        try:
            while queue.n_open:
                self._hand_out(queue)
                yield [*self._events(queue)]
        finally:
            for member in self._members:
                member.work.clear()

    def _hand_out(self, queue: WorkQueue) -> None:
        for depth in range(1, DEPTH + 1):
            for member in self._members:
                if member.coming is not None or len(member.work) >= depth:
                    continue
                share = queue.deal(member)
                if share is None:
                    self._announce_next_window(member)
                    continue
                asked = self._put(queue, share)
                if member.work:
                    _announce(member, asked)
                answer = member.actor.answer.options(num_returns="streaming")
                member.work.append(_Assignment(answer.remote(asked), share))

    def _announce_next_window(self, member: _PooledReplica) -> None:
        """Let a replica prepare its first share of the next window during its last one
        of this window."""
        queue = self.next_window
        share = queue.reserve(member) if queue and member.work else None
        if queue and share:
            _announce(member, self._put(queue, share))

    def _put(self, queue: WorkQueue, share: WorkShare) -> Any:
        return self._cluster.put([queue.requests[i] for i in share.positions])

    def _events(self, queue: WorkQueue) -> Iterator[tuple[int, Response]]:
        """Process the next event, if any: responses, or a change of a replica's
        state."""
        waited = [m for m in self._members if m.coming is not None or m.work]
        things = [m.work[0].stream if m.coming is None else m.coming for m in waited]
        ready = self._cluster.wait(things, LOOK_S)
        if ready is None:
            self._be_patient()
            return
        member = waited[ready.which]
        if ready.lost:
            yield from self._lost(member, ready.lost, queue)
        elif member.coming is not None:
            self._came(member, ready)
        elif ready.ended:
            work = member.work.popleft()
            # What the model left out is an error of its documents.
            queue.answered(len(work.share.positions) - len(work.answered))
        else:
            self._lost_in_a_row = 0
            yield from _placed(ready.value, member, queue)

    def _came(self, member: _PooledReplica, ready: Ready) -> None:
        if not member.has_place:
            member.has_place = True
            member.coming = member.actor.open.remote()
            return
        opened: OpenedReplica = ready.value
        self._compare(opened)
        member.opened, member.coming = opened, None

    def _compare(self, opened: OpenedReplica) -> None:
        """Check that a replica's fingerprint matches the stored responses' model."""
        if self._expected is None or opened.fingerprint is None:
            return
        others = list(_differences(self._expected, opened.fingerprint))
        if others:
            raise ModelError(
                f"the model of the replica on {opened.node} differs from the one on "
                f"this machine: {'; '.join(others)}\n"
                "  fix: install the same packages on all nodes and on this machine, "
                "and give all of them the same files"
            )

    def _lost(
        self, member: _PooledReplica, why: str, queue: WorkQueue
    ) -> Iterator[tuple[int, Response]]:
        """Handle a lost replica: Ray restarts it, and its unanswered requests are
        queued again."""
        self.n_lost += 1
        self._lost_in_a_row += 1
        if self._lost_in_a_row > MOST_LOST:
            raise ModelError(
                f"{self._lost_in_a_row} replicas in a row were lost without a response "
                f"({why})\n"
                "  fix: find the cause in Ray's logs on the nodes; check that the "
                "model fits into their memory"
            )
        for one in filter(None, (queue, self.next_window)):
            one.release(member)
        lost, member.work = member.work, deque()
        for n, work in enumerate(lost):
            gone = queue.give_back(work.share, work.answered, died=n == 0)
            error = (
                f"{BLAMED_AT} or more replicas in a row were lost while they ran this "
                f"request ({why})\n"
                "  fix: find the cause in Ray's logs on the node of the replica; if "
                "memory ran out, set a lower batch_tokens=, or a shorter prompt"
            )
            yield from ((i, Response(error=error)) for i in gone)
        member.has_place = False
        restarted = member.actor.started.options(max_task_retries=-1)
        member.coming = restarted.remote()
        self._placed = time.monotonic()

    def _be_patient(self) -> None:
        if any(m.has_place for m in self._members):
            self._placed = time.monotonic()
        elif time.monotonic() - self._placed > ROOM_S:
            raise ModelError(
                f"the Ray cluster has not started any replica within {ROOM_S:.0f} s\n"
                "  fix: check with 'ray status' that gpus= and cpus= of a replica are "
                "free on one node"
            )


def _announce(member: _PooledReplica, requests: Any) -> None:
    """Announce requests to a replica that is at work on others."""
    member.actor.expect.options(concurrency_group=ANNOUNCEMENTS).remote(requests)


def _placed(
    part: ResponseBatch, member: _PooledReplica, queue: WorkQueue
) -> Iterator[tuple[int, Response]]:
    """Responses with their positions in the window. Violations of the model contract
    are passed on, so that the caller reports them."""
    member.notes = part.notes
    work = member.work[0]
    positions = work.share.positions
    for given in part.responses:
        match given:
            case (int() as place, Response()) if not 0 <= place < len(positions):
                yield -1, given[1]
            case (int() as place, Response() as response):
                work.answered.add(positions[place])
                queue.answered(1)
                yield positions[place], response
            case _:
                yield given


def _differences(here: Mapping[str, Any], there: Mapping[str, Any]) -> Iterator[str]:
    """Differences of two fingerprints, for messages."""
    for name in here.keys() | there.keys():
        mine, its = here.get(name), there.get(name)
        if isinstance(mine, Mapping) and isinstance(its, Mapping):
            yield from _differences(mine, its)
        elif mine != its:
            yield f"{name} is {its!r} there and {mine!r} here"
