"""Garbage collection of sessions with many items, records and reports, which live to
the end."""

from __future__ import annotations

import gc
import sys

ALLOCATIONS = 20_000
"""New objects between two collections of the youngest generation. With the usual
hundreds, collections take a tenth of the plugin's time."""
YOUNGER = 100
"""Collections of a generation between two of the next older one."""

REPORT_LEAKS = frozenset({"jaxlib", "mlx", "triton"})
"""Libraries made with nanobind, which reports frozen objects as leaks at exit. triton
comes with torch for CUDA."""


class ReducedGarbageCollection:
    """Raises the thresholds for as long as a session lasts."""

    def __init__(self) -> None:
        self._thresholds = gc.get_threshold()
        new, middle, old = self._thresholds
        if new:  # collection is on
            gc.set_threshold(max(ALLOCATIONS, new), max(YOUNGER, middle), old)

    def end(self) -> None:
        """Restore the thresholds, and exclude all objects that survive a collection, so
        that the interpreter ends without scanning each item and report."""
        gc.set_threshold(*self._thresholds)
        if not REPORT_LEAKS.intersection(sys.modules):
            gc.collect()
            gc.freeze()
