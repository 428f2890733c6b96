"""Counts of the requests and costs of a run, for spend caps."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import ClassVar, NamedTuple
from weakref import finalize

LEDGER = "spent.sqlite"  # Name of the file
MOST = 2**62  # Higher than all counts and costs
_TABLE = (
    "CREATE TABLE IF NOT EXISTS spent (model TEXT PRIMARY KEY, requests INTEGER, "
    "cost INTEGER, reserved INTEGER, factor REAL)"
)


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
            cost = math.ceil(most * spent.factor)
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
