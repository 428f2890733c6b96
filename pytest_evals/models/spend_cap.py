"""Spend caps: the maximum of requests and of cost of a model in one run.

A request is counted before it is sent, at the highest cost that it may have, and its
real cost replaces that when the reply is there. Requests in flight therefore never
exceed a cap. All workers of pytest-xdist share the counts, in a file.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from pytest_evals.errors import SpendCapError
from pytest_evals.models.spend_ledger import MOST, Ledger

_UNIT = 1e-12
"""Costs are whole numbers of this unit, since sums of floats are not exact."""


@dataclass(slots=True)
class Payment:
    """A request that was sent.

    Args:
        reserved: The highest cost that it may have.
        cost: Its real cost; ``None`` while unknown, which counts as the highest.
    """

    reserved: float
    cost: float | None = None


class SpendCap:
    """The caps of one model; used in one event loop."""

    def __init__(
        self,
        model: str = "",
        name: str = "",
        max_requests: int = 0,
        max_cost: float = 0.0,
    ) -> None:
        """Set the caps; 0 is none.

        Args:
            model: The model's spec; models with the same one share their caps.
            name: Its name in messages.
            max_requests: Maximum of requests, retries included.
            max_cost: Maximum of cost.
        """
        self._model, self._name = model, name
        self._max_requests, self._max_cost = max_requests, max_cost
        self._ledger: Ledger | None = None
        if max_requests or max_cost:
            self._ledger = Ledger.of_run()
            self._ledger.open(model)
        self._in_flight = 0
        self._knows_costs = not max_cost
        self._settled = asyncio.Event()
        self._reached = ""

    @asynccontextmanager
    async def request(self, most: float) -> AsyncIterator[Payment]:
        """Count a request while it is sent. Waits for the cost of requests in flight if
        this one may not fit.

        Args:
            most: The highest cost that it may have.

        Raises:
            SpendCapError: It does not fit.
        """
        if self._ledger is None:
            yield Payment(most)
            return
        most_units = math.ceil(most / _UNIT) if self._max_cost else 0
        reserved = await self._take(self._ledger, most_units)
        payment = Payment(reserved * _UNIT)
        self._in_flight += 1
        try:
            yield payment
        finally:
            self._in_flight -= 1
            cost = reserved
            if payment.cost is not None and most_units:
                cost = min(round(payment.cost / _UNIT), MOST)
            self._knows_costs |= cost > 0
            factor = cost / most_units if most_units else 1.0
            self._ledger.settle(self._model, cost - reserved, factor)
            self._settled.set()

    async def _take(self, ledger: Ledger, most: int) -> int:
        limits = (
            self._max_requests or MOST,
            round(self._max_cost / _UNIT) or MOST,
        )
        while not self._reached:
            # Nothing is known of costs before the first reply: send one request.
            if self._knows_costs or not self._in_flight:
                reserved = ledger.take(self._model, most, limits)
                if reserved >= 0:
                    return reserved
                n_requests, spent, factor = ledger.spent(self._model)
                if n_requests >= limits[0]:
                    self._reached = f"max_requests={self._max_requests}"
                elif not self._in_flight:
                    self._reached = (
                        f"max_cost={self._max_cost:g} ({spent * _UNIT:.4g} is spent, "
                        f"and the next request may cost {most * factor * _UNIT:.4g})"
                    )
                if self._reached:
                    break
            self._settled.clear()
            await self._settled.wait()
        raise SpendCapError(f"spend cap of {self._name} reached: {self._reached}")
