"""When a session began."""

from __future__ import annotations

import time
from typing import NamedTuple

import pytest

__all__ = ["STARTED", "Start"]


class Start(NamedTuple):
    """The start of something that takes its time.

    Args:
        date: Unix time, for people.
        clock: Of the monotonic clock: the date's may be set meanwhile.
    """

    date: float
    clock: float

    @classmethod
    def now(cls) -> Start:
        """This moment."""
        return cls(time.time(), time.perf_counter())

    @property
    def elapsed_s(self) -> float:
        """Seconds since then."""
        return time.perf_counter() - self.clock


STARTED: pytest.StashKey[Start] = pytest.StashKey()
"""When pytest was configured."""
