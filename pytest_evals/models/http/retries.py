"""Requests with retries: exponential backoff within the concurrency limit. Requests
that fail permanently raise ``RequestFailedError``; failures that affect the whole run
raise ``ModelError``."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol, TypeVar

from pytest_evals.errors import ModelError
from pytest_evals.models.http.errors import PROXY, UNREACHED, RequestFailedError
from pytest_evals.models.http.event_loop import pause
from pytest_evals.models.http.spend_cap import SpendCap
from pytest_evals.models.http.streaming import FIRST_TOKEN_S, first_token_s
from pytest_evals.models.http.usage import METER, Usage, hidden_tokens_of, tokens_of

T = TypeVar("T")
Reply = Mapping[str, Any]
CONNECT_ATTEMPTS = 3  # Attempts to reach a server that has never replied


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Pauses between attempts, in seconds: exponential with jitter."""

    first_s: float = 0.5
    most_s: float = 30.0

    def pause(self, attempt: int, random: Random) -> float:
        """The pause after an attempt, counted from 1."""
        whole = min(self.most_s, self.first_s * float(2 ** min(attempt - 1, 30)))
        return whole * (0.5 + random.random() / 2)


class Transport(Protocol):
    """Sends single requests."""

    async def post(self, path: Any, body: Mapping[str, Any], /) -> Reply:
        """The reply to one request."""
        ...

    def safe(self, fault: RequestFailedError, /) -> RequestFailedError:
        """The error with secrets masked, which a server may repeat."""
        ...

    def source(self, path: Any, /) -> str:
        """The model and the URL of a path, without secrets."""
        ...

    def fix(self, kind: str, path: Any, /) -> str:
        """The fix for an error of that kind; empty if unknown."""
        ...


class ClientLimits(Protocol):
    """Limits of a client."""

    @property
    def concurrency(self) -> int:
        """Maximum of concurrent requests."""
        ...

    @property
    def max_retries(self) -> int:
        """Maximum of retries of a request."""
        ...


class ConcurrencyLimit:
    """A semaphore whose limit halves on overload and grows while the server keeps up
    (AIMD). Belongs to one event loop."""

    def __init__(self, most: int) -> None:
        """``most`` is the maximum and the initial limit."""
        self._most = most
        self._limit = float(most)
        self._running = 0
        self._waiters: list[asyncio.Future[None]] = []
        self._resume = 0.0
        self._cut = 0.0
        self.lowest = most  # The lowest limit so far

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
            await pause(0)
            while (left := self._resume - self._now()) > 0:
                await pause(left)
            yield self._now()
        finally:
            self._running -= 1
            waiters, self._waiters = self._waiters, []
            for one in waiters:  # in their order of arrival
                if not one.done():
                    one.set_result(None)

    def went_well(self) -> None:
        """Record a successful reply and raise the limit slightly."""
        self._limit = min(self._most, self._limit + 1 / self._limit)

    def too_much(self, began: float, wait_s: float) -> None:
        """Halve the limit on overload, once for all requests in flight. ``wait_s``: for
        how long nothing at all is to be sent."""
        now = self._now()
        if wait_s:
            self._resume = max(self._resume, now + wait_s)
        if began >= self._cut:
            self._cut = now
            self._limit = max(1.0, self._limit / 2)
            self.lowest = min(self.lowest, self.limit)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


class RetryingClient:
    """Sends requests until they succeed or the retries are used up."""

    def __init__(
        self,
        endpoint: Transport,
        settings: ClientLimits,
        usage: Usage,
        backoff: Backoff,
        cap: SpendCap | None = None,
    ) -> None:
        self._transport = endpoint
        self._settings = settings
        self._usage = usage
        self._backoff = backoff
        self._cap = cap or SpendCap()
        # Pauses need not be the same in two runs, and two workers' should differ.
        self._random = Random()
        self.concurrency = ConcurrencyLimit(settings.concurrency)

    async def ask(
        self,
        path: Any,
        body: Mapping[str, Any],
        read: Callable[[Reply], T],
        retries: int | None = None,
    ) -> T:
        """The result of ``read`` on the reply; if ``read`` raises, the request counts
        as failed. ``RequestFailedError`` if there is no reply that can be used,
        ``ModelError`` if there will be none to any request, ``SpendCapError`` if a
        spend cap is reached."""
        most = 1 + (self._settings.max_retries if retries is None else retries)
        attempt, retry_reason = 0, ""
        while True:
            attempt += 1
            try:
                return await self._once(path, body, read, retry_reason)
            except RequestFailedError as caught:
                fault = caught
            # Outside of the except block: no later error is chained to this fault.
            self._give_up_if_hopeless(
                fault, path, min(most, CONNECT_ATTEMPTS) <= attempt
            )
            if not fault.retryable or attempt >= most:
                if attempt > 1:
                    fault.text += f" ({attempt} attempts)"
                if fault.hopeless or not self._usage.n_replies:
                    fault.text += self._fix(fault, path)
                raise self.named(fault, path)
            retry_reason = fault.kind
            await pause(max(self._backoff.pause(attempt, self._random), fault.wait_s))

    def named(self, fault: RequestFailedError, path: Any) -> RequestFailedError:
        """The error of a request that was sent, with the model and address."""
        fault.source = self._transport.source(path)
        return fault

    async def _once(
        self,
        path: Any,
        body: Mapping[str, Any],
        read: Callable[[Reply], T],
        retry_reason: str,
    ) -> T:
        most = self._usage.most(body)
        turn, request = self.concurrency.turn(), self._cap.request(most)
        async with turn as began, request as payment:
            self._usage.sent(retry_reason)
            timings = self._usage.timings
            timings.began()
            try:
                sent = time.perf_counter()
                reply = await self._transport.post(path, body)
                took_s = time.perf_counter() - sent
                payment.cost = self._usage.count(reply)
                try:
                    found = read(reply)
                except RequestFailedError as fault:
                    raise self._transport.safe(fault) from None
            except RequestFailedError as fault:
                if fault.kind.startswith("4"):  # refused without an answer
                    payment.cost = 0.0
                if fault.slower:
                    self.concurrency.too_much(began, fault.wait_s)
                raise
            finally:
                timings.ended()
                if payment.cost is None:
                    self._usage.cost_is_unknown()
        self._usage.replied()
        n_tokens = tokens_of(reply)[1]
        if reply.get(FIRST_TOKEN_S):  # it follows the hidden ones
            n_tokens -= hidden_tokens_of(reply)
        timings.replied(took_s, n_tokens, first_token_s(reply))
        if (meter := METER.get()) is not None:
            meter.latency_s += took_s
        self.concurrency.went_well()
        return found

    def _give_up_if_hopeless(
        self, fault: RequestFailedError, path: Any, knocked: bool
    ) -> None:
        """Raise if the first error affects all requests."""
        if self._usage.n_replies:
            return
        needs_more = fault.kind in (UNREACHED, PROXY) and not fault.hopeless
        if not (knocked if needs_more else fault.hopeless):
            return
        raise ModelError(f"{self.named(fault, path).message}{self._fix(fault, path)}")

    def _fix(self, fault: RequestFailedError, path: Any) -> str:
        """Return the second line of a message; empty if no fix is known."""
        fix = self._transport.fix(fault.kind, path)
        return f"\n  fix: {fix}" if fix else ""
