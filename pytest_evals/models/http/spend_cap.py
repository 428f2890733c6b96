"""Spend caps: the maximum of requests and of cost of a model, and of all models
together, in one run.

A request is counted before it is sent, at the highest cost that it may have, and its
real cost replaces that when the reply is there. Requests in flight therefore never
exceed a cap. All workers of pytest-xdist share the counts, in a file.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from math import ceil
from threading import Lock
from typing import ClassVar, NamedTuple
from weakref import finalize

from pytest_evals.core.run_plan import amount, cap_amount
from pytest_evals.errors import OptionError, SpendCapError
from pytest_evals.models.http.event_loop import pause

LEDGER = "spent.sqlite"  # Name of the file
MOST = 2**62  # Higher than all counts and costs
_TABLE = (
    "CREATE TABLE IF NOT EXISTS spent (model TEXT PRIMARY KEY, requests INTEGER, "
    "cost INTEGER, reserved INTEGER, factor REAL)"
)
_UNIT = 1e-12
"""Costs are whole numbers of this unit, since sums of floats are not exact."""
_LOOK_S = 0.1  # Seconds between two looks at the counts of other processes
_LOST_S = 300.0
"""Seconds without a change after which requests of other processes count as lost."""


class Spent(NamedTuple):
    """What a model has spent so far."""

    n_requests: int = 0
    cost: int = 0  # Cost of the requests that have ended
    reserved: int = 0  # Highest cost of those in flight
    factor: float = 1.0
    """By how much a real cost has exceeded the highest by its length."""


class RunCaps(NamedTuple):
    """Maximum of requests and of cost of all models of a run together; 0 is none."""

    max_requests: int = 0
    max_cost: float = 0.0


RUN = ""  # The row of the run, in which all models count
Limits = tuple[int, int]  # Maximum of requests and of cost
NO_LIMITS = (MOST, MOST)


class Ledger:
    """Requests and costs of the models of a run, in memory or in a file that several
    processes share."""

    _path: ClassVar[str] = ""
    _current: ClassVar[Ledger | None] = None
    caps: ClassVar[RunCaps] = RunCaps()  # The caps of the current run

    def __init__(self, path: str = "") -> None:
        import sqlite3  # most runs have no spend cap

        file = path or ":memory:"
        self._database = sqlite3.connect(
            file, timeout=60, isolation_level=None, check_same_thread=False
        )
        finalize(self, self._database.close)  # Python 3.13 warns of open ones
        self._lock = Lock()  # models share the connection, each in its thread
        self._database.execute("PRAGMA synchronous = OFF")
        self._database.execute(_TABLE)

    @classmethod
    def begin_run(cls, path: str = "", caps: RunCaps = RunCaps()) -> None:  # noqa: B008
        """Count from 0 in models that are opened from now on. ``path``: a file that
        other processes of the run use too, empty for none. ``caps``: those of all
        models together."""
        cls._path, cls._current, cls.caps = path, None, caps

    @classmethod
    @contextmanager
    def lasting(cls, caps: RunCaps) -> Iterator[None]:
        """Count from 0 with these caps, which end with the block."""
        cls.begin_run(caps=caps)
        try:
            yield
        finally:
            cls.begin_run()

    @classmethod
    def of_run(cls) -> Ledger:
        """The ledger of the current run."""
        if cls._current is None:
            cls._current = cls(cls._path)
        return cls._current

    def open(self, model: str) -> None:
        """Add a model and the run; those that exist keep their counts."""
        query = "INSERT OR IGNORE INTO spent VALUES (?, ?, ?, ?, ?)"
        for name in (model, RUN):
            self._database.execute(query, (name, *Spent()))

    def take(
        self, model: str, most: int, limits: Limits, of_run: Limits = NO_LIMITS
    ) -> int:
        """Count a request if it fits; return its reserved cost, -1 if it does not fit.
        ``most``: the highest cost that it may have, by its length. ``of_run``: limits
        of all models together."""
        database = self._database
        with self._lock:
            database.execute("BEGIN IMMEDIATE")
            spent = self.spent(model)
            cost = ceil(most * spent.factor)
            pairs = ((spent, limits), (self.spent(RUN), of_run))
            fits = all(
                one.n_requests < most_requests
                and one.cost + one.reserved + cost <= most_cost
                for one, (most_requests, most_cost) in pairs
            )
            if fits:
                database.execute(
                    "UPDATE spent SET requests = requests + 1, "
                    "reserved = reserved + ? WHERE model IN (?, ?)",
                    (cost, model, RUN),
                )
            database.execute("COMMIT")
        return cost if fits else -1

    def settle(self, model: str, reserved: int, cost: int, factor: float) -> None:
        """Replace the reserved cost of a request by its real one. ``factor``: its real
        cost, divided by the highest by its length."""
        query = (
            "UPDATE spent SET cost = cost + ?, reserved = reserved - ?, "
            "factor = max(factor, ?) WHERE model IN (?, ?)"
        )
        with self._lock:
            self._database.execute(query, (cost, reserved, factor, model, RUN))

    def spent(self, model: str) -> Spent:
        """The requests and costs so far."""
        query = "SELECT requests, cost, reserved, factor FROM spent WHERE model = ?"
        return Spent(*self._database.execute(query, (model,)).fetchone())


@dataclass(slots=True)
class Payment:
    """A request that was sent."""

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
            yield Payment()
            return
        most_units = round(most / _UNIT) if self._max_cost else 0
        reserved = await self._take(self._ledger, most_units)
        payment = Payment()
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
        of_model, of_run = (one.limits for one in self._accounts.values())
        while not self._reached:
            # Nothing is known of costs before the first reply: send one request.
            if self._knows_costs or not self._in_flight:
                reserved = ledger.take(self._model, most, of_model, of_run)
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
