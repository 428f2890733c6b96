"""Adaptive concurrency limit (AIMD): halve on overload, increase additively while the
server keeps up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class ConcurrencyLimit:
    """A semaphore with an adaptive limit. Belongs to one event loop."""

    def __init__(self, most: int) -> None:
        """``most`` is the maximum and the initial limit."""
        self._most = most
        self._limit = float(most)
        self._running = 0
        self._waiters: list[asyncio.Future[None]] = []
        self._resume = 0.0
        self._cut = 0.0
        self.lowest = most
        """The lowest limit so far."""

    @property
    def limit(self) -> int:
        """The current limit."""
        return int(self._limit)

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[float]:
        """Acquire a slot; yields the time at which it was acquired."""
        while self._running >= self.limit:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter
        self._running += 1
        try:
            await self._until_resumed()
            yield self._now()
        finally:
            self._running -= 1
            self._wake()

    def went_well(self) -> None:
        """Record a successful reply and raise the limit slightly."""
        self._limit = min(self._most, self._limit + 1 / self._limit)

    def too_much(self, began: float, wait_s: float) -> None:
        """Halve the limit on overload, once for all requests in flight.

        Args:
            began: When the refused request began.
            wait_s: For how long nothing at all is to be sent.
        """
        now = self._now()
        if wait_s:
            self._resume = max(self._resume, now + wait_s)
        if began >= self._cut:
            self._cut = now
            self._limit = max(1.0, self._limit / 2)
            self.lowest = min(self.lowest, self.limit)

    async def _until_resumed(self) -> None:
        while (left := self._resume - self._now()) > 0:
            await asyncio.sleep(left)

    def _wake(self) -> None:
        """Wake all waiters in their order of arrival."""
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
