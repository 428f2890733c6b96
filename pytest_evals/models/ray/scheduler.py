"""Work assignment: requests of a window are distributed to replicas in shares.

Independent of Ray. Shares are contiguous, since requests with the same prompt or
few-shot examples are adjacent. Early shares are large, later ones small, so that all
replicas finish at about the same time (guided self-scheduling).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import accumulate

from pytest_evals.core.key import prompt_of
from pytest_evals.core.request import Generate, Loglikelihood, Prompt, Request

FIXED = 200
"""Cost of a request in addition to its prompt, in characters."""
PER_TOKEN = 4
"""Characters per completion token."""
LEAST = 4096 * PER_TOKEN
"""Minimum cost of a share: so many tokens."""
BLAMED_AT = 3
"""Number of replicas that must die on a request before it is abandoned; it is retried
with fewer and fewer others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkShare:
    """Requests that are assigned together.

    Args:
        positions: Positions in the window, ascending.
        n_deaths: Replicas that have died while they were at them, without an answer.
    """

    positions: Sequence[int]
    n_deaths: int = 0


class WorkQueue:
    """The unassigned requests of a window."""

    def __init__(self, requests: Sequence[Request], n_replicas: int) -> None:
        """``n_replicas`` is the number of consumers."""
        self._ends = list(accumulate(_costs(requests)))
        self.requests = requests
        self._n = max(1, n_replicas)
        self._next = 0
        self._back: deque[WorkShare] = deque()
        self._reserved: dict[object, WorkShare] = {}
        self.n_open = len(requests)
        """Number of requests without a response, including assigned ones."""

    def reserve(self, consumer: object) -> WorkShare | None:
        """The share that a consumer will get first, unless others have finished before;
        ``None`` if it has one already, or none is left."""
        if consumer in self._reserved:
            return None
        share = self._next_share()
        if share is not None:
            self._reserved[consumer] = share
        return share

    def deal(self, consumer: object = None) -> WorkShare | None:
        """The next share; ``None`` if none is left."""
        if consumer in self._reserved:
            return self._reserved.pop(consumer)
        share = self._next_share()
        if share is None and self._reserved:
            share = self._reserved.popitem()[1]
        return share

    def _next_share(self) -> WorkShare | None:
        if self._back:
            return self._back.popleft()
        start, whole = self._next, len(self._ends)
        if start == whole:
            return None
        done = self._ends[start - 1] if start else 0
        most = done + max(LEAST, (self._ends[-1] - done) / (2 * self._n))
        end = start + 1
        while end < whole and (self._ends[end] <= most or not self._is_edge(end)):
            end += 1
        self._next = end
        return WorkShare(positions=range(start, end))

    def _is_edge(self, place: int) -> bool:
        """Whether the request has another prompt than the previous one."""
        before, after = self.requests[place - 1], self.requests[place]
        return prompt_of(before) != prompt_of(after)

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


def _costs(requests: Sequence[Request]) -> list[int]:
    costs = []
    last: Prompt | None = None
    for request in requests:
        prompt = prompt_of(request)
        cost = FIXED
        if prompt is not last and prompt != last:
            cost += _length(prompt)
            last = prompt
        if isinstance(request, Loglikelihood):
            cost += len(request.continuation)
        elif isinstance(request, Generate):
            cost += PER_TOKEN * request.max_tokens
        costs.append(cost)
    return costs


def _length(prompt: Prompt) -> int:
    if isinstance(prompt, str):
        return len(prompt)
    return sum(len(message.content) for message in prompt)
