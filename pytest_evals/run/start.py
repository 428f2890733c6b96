"""Time since the start of a run."""

from __future__ import annotations

import time
from typing import NamedTuple


class Start(NamedTuple):
    """A point in time."""

    date: float  # unix time
    clock: float  # monotonic clock, which is unaffected by changes of the date

    @classmethod
    def now(cls) -> Start:
        """Return the current time."""
        return cls(time.time(), time.perf_counter())

    @property
    def elapsed_s(self) -> float:
        """Seconds since then."""
        return time.perf_counter() - self.clock
