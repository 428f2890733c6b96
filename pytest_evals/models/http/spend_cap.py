"""Spend caps: the maximum of requests and of cost of a model, and of all models
together, in one run.

A request is counted before it is sent, at the highest cost that it may have, and its
real cost replaces that when the reply is there. Requests in flight therefore never
exceed a cap. All workers of pytest-xdist share the counts, in a file.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

from pytest_evals.core.run_plan import amount, cap_amount
from pytest_evals.errors import OptionError, SpendCapError
from pytest_evals.models.http.event_loop import pause
from pytest_evals.models.http.spend_ledger import MOST, RUN, Ledger, Spent

_UNIT = 1e-12
"""Costs are whole numbers of this unit, since sums of floats are not exact."""
_LOOK_S = 0.1  # Seconds between two looks at the counts of other processes
_LOST_S = 300.0
"""Seconds without a change after which requests of other processes count as lost."""


@dataclass(slots=True)
class Payment:
    """A request that was sent."""

    reserved: float  # The highest cost that it may have
    cost: float | None = None
    """Its real cost; ``None`` while unknown, which counts as the highest."""


class _Account(NamedTuple):
    """The caps of a model, or of the run."""

    name: str
    max_requests: int
    max_cost: float

    @property
    def limits(self) -> tuple[int, int]:
        """The caps in units; a high number for none."""
        return self.max_requests or MOST, round(self.max_cost / _UNIT) or MOST


class SpendCap:
    """The caps of one model; used in one event loop."""

    def __init__(
        self,
        model: str = "",
        name: str = "",
        max_requests: int = 0,
        max_cost: float = 0.0,
        *,
        has_costs: bool = True,
    ) -> None:
        """Set the caps; 0 is none. ``model``: its spec; models with the same one share
        their caps. Requests include retries. ``has_costs``: whether the cost of
        requests is known; ``OptionError`` if it is not and the run has a maximum."""
        self._model, self._name = model, name
        self._accounts = {
            model: _Account(name, max_requests, max_cost),
            RUN: _Account("the run", *Ledger.caps),
        }
        self._max_cost = max_cost or Ledger.caps.max_cost
        if Ledger.caps.max_cost and not has_costs:
            raise OptionError(
                f"the run has a maximum of cost, and the prices of {name} are unknown\n"
                "  fix: set price_in= and price_out= per million tokens in its spec"
            )
        self._ledger: Ledger | None = None
        if any(one.max_requests or one.max_cost for one in self._accounts.values()):
            self._ledger = Ledger.of_run()
            self._ledger.open(model)
        self._in_flight = 0
        self._reserved = 0
        self._knows_costs = not self._max_cost
        self._settled = asyncio.Event()
        self._reached = ""
        self._seen, self._seen_at = Spent(), 0.0

    @asynccontextmanager
    async def request(self, most: float) -> AsyncIterator[Payment]:
        """Count a request while it is sent. Waits for the cost of requests in flight if
        this one may not fit. ``most``: the highest cost that it may have."""
        if self._ledger is None:
            yield Payment(most)
            return
        most_units = round(most / _UNIT) if self._max_cost else 0
        reserved = await self._take(self._ledger, most_units)
        payment = Payment(reserved * _UNIT)
        self._in_flight += 1
        self._reserved += reserved
        try:
            yield payment
        finally:
            self._in_flight -= 1
            self._reserved -= reserved
            cost = reserved
            if payment.cost is not None and self._max_cost:
                cost = min(round(payment.cost / _UNIT), MOST)
            self._knows_costs |= cost > 0
            factor = cost / most_units if most_units else 1.0
            self._ledger.settle(self._model, reserved, cost, factor)
            self._settled.set()

    async def _take(self, ledger: Ledger, most: int) -> int:
        own, of_run = (one.limits for one in self._accounts.values())
        while not self._reached:
            # Nothing is known of costs before the first reply: send one request.
            if self._knows_costs or not self._in_flight:
                reserved = ledger.take(self._model, most, own, of_run)
                if reserved >= 0:
                    return reserved
                factor = ledger.spent(self._model).factor
                for key, account in self._accounts.items():
                    why = self._why(account, ledger.spent(key), ceil(most * factor))
                    self._reached = self._reached or why
                if self._reached:
                    break
            self._settled.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_S):
                    await self._settled.wait()
            await pause(0)
        raise SpendCapError(f"spend cap of {self._reached}")

    def _why(self, account: _Account, spent: Spent, most: int) -> str:
        """Which cap is reached for good; empty if none is."""
        n, limit = account.limits
        if spent.n_requests >= n:
            return f"{account.name} reached: max_requests={account.max_requests}"
        if spent.cost + spent.reserved + most <= limit:
            return ""
        if self._in_flight or self._others_run(spent):
            return ""
        fix = "; raise max_cost, or lower max_gen_toks" if most > limit else ""
        return (
            f"{account.name} reached: max_cost={cap_amount(account.max_cost)} "
            f"({amount((spent.cost + spent.reserved) * _UNIT)} is spent, and the next "
            f"request may cost {amount(most * _UNIT)}{fix})"
        )

    def _others_run(self, spent: Spent) -> bool:
        """Whether requests of other processes, or of another model of the same spec,
        are in flight, so that their real costs may leave room. Those of a process that
        was killed never end."""
        now = time.monotonic()
        if spent != self._seen:
            self._seen, self._seen_at = spent, now
        return spent.reserved > self._reserved and now - self._seen_at < _LOST_S
