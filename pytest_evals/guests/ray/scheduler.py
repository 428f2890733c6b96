"""Work assignment: requests of a window are distributed to replicas in shares.

Independent of Ray. Requests are in prefix order. Each replica works on a contiguous
part of them, in shares that get smaller, so that prefixes are in its cache; then it
takes half of the largest rest of another replica. Parts and shares end where the next
request has the least in common with the previous one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise, starmap

from pytest_evals.core.request import Generate, Loglikelihood, Request
from pytest_evals.models.prefix_order import (
    BLOCK,
    prefix_order,
    prompt_text,
    shared_characters,
)

FIXED = 40
"""Cost of a request in addition to its prompt, in characters."""
PER_TOKEN = 4
"""Characters per completion token."""
LEAST = 4096 * PER_TOKEN
"""Minimum cost of a share, in characters."""
SPLIT = 4
"""A share has 1/SPLIT of the cost of a replica's unassigned requests, so that other
replicas can take over the remainder."""
TOLERANCE = 0.1
"""Relative deviation from the intended cost of a part or share, so that it can end
where prefixes have less in common."""
BLAMED_AT = 3
"""Number of replicas that must die on a request before it is abandoned; it is retried
with fewer and fewer others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkShare:
    """Requests that are assigned together.

    Args:
        positions: Positions in the window.
        n_deaths: Replicas that have died while they were at them, without an answer.
    """

    positions: Sequence[int]
    n_deaths: int = 0


class WorkQueue:
    """The unassigned requests of a window."""

    def __init__(self, requests: Sequence[Request], n_replicas: int) -> None:
        """``n_replicas`` is the number of consumers."""
        texts = [prompt_text(request) for request in requests]
        self._order = prefix_order(texts)
        self._shared = [0, *starmap(_shared, pairwise(texts[i] for i in self._order))]
        """For each place in the order, characters that it shares with the previous
        one."""
        costs = (
            FIXED + max(0, len(texts[i]) - n) + _completion(requests[i])
            for i, n in zip(self._order, self._shared, strict=False)
        )
        self._costs = [*accumulate(costs, initial=0)]
        """For each place in the order, the cost of all before it."""
        self._shared.append(0)
        self.requests = requests
        self._free = deque(self._parts(n_replicas))
        self._own: dict[object, range] = {}
        self._back: deque[WorkShare] = deque()
        self._reserved: dict[object, WorkShare] = {}
        self.n_open = len(requests)
        """Number of requests without a response, including assigned ones."""

    def reserve(self, consumer: object) -> WorkShare | None:
        """The share that a consumer will get first, unless others have finished before;
        ``None`` if it has one already, or none is left."""
        if consumer in self._reserved:
            return None
        share = self._next_share(consumer)
        if share is not None:
            self._reserved[consumer] = share
        return share

    def deal(self, consumer: object = None) -> WorkShare | None:
        """The next share; ``None`` if none is left."""
        if consumer in self._reserved:
            return self._reserved.pop(consumer)
        share = self._next_share(consumer)
        if share is None and self._reserved:
            share = self._reserved.popitem()[1]
        return share

    def _next_share(self, consumer: object) -> WorkShare | None:
        if self._back:
            return self._back.popleft()
        part = self._own.pop(consumer, None) or self._further_part()
        if not part:
            return None
        stop = self._border(part, max(LEAST, self._cost(part) / SPLIT))
        self._own[consumer] = range(stop, part.stop)
        return WorkShare(positions=self._order[part.start : stop])

    def _parts(self, n: int) -> Iterator[range]:
        """Divide the order into at most ``n`` parts; fewer if computing a prefix in two
        of them costs more than a part."""
        rest = range(len(self._order))
        for k in range(min(n, len(rest)), 1, -1):
            place = self._border(rest, self._cost(rest) / k)
            part = range(rest.start, place)
            others = range(place, rest.stop)
            if self._cost(others) / (k - 1) >= max(LEAST, self._shared[place]):
                yield part
                rest = others
        yield rest

    def _further_part(self) -> range:
        """A part without an owner, or half of the largest rest; empty if that costs
        less than computing its prefix again."""
        if self._free:
            return self._free.popleft()
        if not self._own:
            return range(0)
        owner, rest = max(self._own.items(), key=lambda pair: self._cost(pair[1]))
        cost = self._cost(rest)
        place = self._border(rest, cost / 2) if cost >= 2 * LEAST else rest.start
        part = range(place, rest.stop)
        if self._cost(part) < self._shared[place]:
            return range(0)
        self._own[owner] = range(rest.start, place)
        return part

    def _border(self, part: range, cost: float) -> int:
        """The end of a first piece with about this cost, at the place where consecutive
        prompts have the least in common."""
        start = self._costs[part.start]
        first, last = (
            bisect_left(self._costs, start + one * cost, part.start + 1, part.stop)
            for one in (1 - TOLERANCE, 1 + TOLERANCE)
        )

        def loss(place: int) -> tuple[int, float]:
            miss = abs(self._costs[place] - start - cost)
            return self._shared[place] // BLOCK, miss

        return min(range(first, last + 1), key=loss)

    def _cost(self, part: range) -> int:
        return self._costs[part.stop] - self._costs[part.start]

    def release(self, consumer: object) -> None:
        """Let others have the unassigned requests of a lost replica."""
        if rest := self._own.pop(consumer, None):
            self._free.append(rest)
        if share := self._reserved.pop(consumer, None):
            self._back.append(share)

    def answered(self, n: int) -> None:
        """Record ``n`` responses."""
        self.n_open -= n

    def give_back(
        self, share: WorkShare, answered: Collection[int], *, died: bool
    ) -> list[int]:
        """Queue the unanswered requests of a lost replica again.

        After two replicas have died on a share, it is split in halves each time, to
        isolate a request that kills replicas.

        Args:
            share: As it was dealt.
            answered: Positions that came back before.
            died: Whether the replica was at this share, rather than about to begin it.

        Returns:
            Positions that are given up; they count as answered.
        """
        left = [i for i in share.positions if i not in answered]
        n = (0 if answered else share.n_deaths) + died
        if died and len(left) == 1 and n >= BLAMED_AT:
            self.n_open -= 1
            return left
        parts = [left]
        if n > 1 and len(left) > 1:
            middle = len(left) // 2
            parts = [left[:middle], left[middle:]]
        self._back.extend(WorkShare(positions=p, n_deaths=n) for p in parts if p)
        return []


def _shared(one: str, other: str) -> int:
    """Length of the common prefix; more for equal strings, so that the requests of one
    prompt stay together."""
    n = shared_characters(one, other)
    return n + BLOCK if n == len(other) else n


def _completion(request: Request) -> int:
    """Cost of what follows the prompt."""
    if isinstance(request, Loglikelihood):
        return len(request.continuation)
    return PER_TOKEN * request.max_tokens if isinstance(request, Generate) else 0
