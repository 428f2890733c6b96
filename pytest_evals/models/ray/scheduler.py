"""Which replica is asked what: a window of requests, dealt in shares.

Knows nothing of Ray. A share is a run of neighbours, since requests that share a prompt
or shots stand together. The first shares are large, for that; the last ones small, so
that all replicas end at about the same time (guided self-scheduling).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import accumulate

from pytest_evals.core.key import prompt_of
from pytest_evals.core.request import Generate, Loglikelihood, Prompt, Request

FIXED = 200
"""What a request costs besides its text, in characters."""
PER_TOKEN = 4
"""Characters that a token of an answer stands for."""
LEAST = 32
"""Requests of the smallest share."""
BLAMED_AT = 3
"""Replicas that must have died over a request that was asked alone, or with fewer and
fewer others, before it is given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkShare:
    """Requests that a replica is asked together.

    Args:
        positions: Where they stand in the window, ascending.
        n_deaths: Replicas that have died while they were at them, without an answer.
    """

    positions: Sequence[int]
    n_deaths: int = 0


class WorkQueue:
    """The requests of a window that nobody is asked yet."""

    def __init__(self, requests: Sequence[Request], n_replicas: int) -> None:
        """All of them; ``n_replicas`` will ask for shares."""
        self._ends = list(accumulate(_costs(requests)))
        self._requests = requests
        self._n = max(1, n_replicas)
        self._next = 0
        self._back: deque[WorkShare] = deque()
        self.n_open = len(requests)
        """Requests without an answer, those that are being asked included."""

    def deal(self) -> WorkShare | None:
        """The next share; ``None`` if nothing is left to ask."""
        if self._back:
            return self._back.popleft()
        start, whole = self._next, len(self._ends)
        if start == whole:
            return None
        done = self._ends[start - 1] if start else 0
        most = done + (self._ends[-1] - done) / (2 * self._n)
        end = min(whole, start + LEAST)
        while end < whole and (self._ends[end] <= most or not self._is_edge(end)):
            end += 1
        self._next = end
        return WorkShare(positions=range(start, end))

    def _is_edge(self, place: int) -> bool:
        """Whether the request there has another prompt than the one before it."""
        before, after = self._requests[place - 1], self._requests[place]
        return prompt_of(before) != prompt_of(after)

    def answered(self, n: int) -> None:
        """So many requests of dealt shares were answered."""
        self.n_open -= n

    def give_back(
        self, share: WorkShare, answered: Collection[int], *, died: bool
    ) -> list[int]:
        """What was not answered of a share, since its replica was lost, is dealt again.

        A share over which two replicas have died is dealt in halves from then on, so
        that a request that kills whoever is asked is found.

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
