"""Garbage collection of sessions with many items, records and reports, which live to
the end."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

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

    @contextmanager
    def importing(self) -> Iterator[None]:
        """Import a model's libraries without collections, and exclude the hundred
        thousands of objects that they create from all later ones."""
        # Weights that are there already must stay collectable.
        if "torch" in sys.modules or not gc.isenabled():
            yield
            return
        gc.collect()  # garbage would be excluded too
        gc.disable()
        try:
            yield
        finally:
            gc.enable()
        gc.freeze()

    def end(self) -> None:
        """Restore the thresholds, and exclude all objects that survive a collection, so
        that the interpreter ends without scanning each item and report."""
        gc.set_threshold(*self._thresholds)
        if REPORT_LEAKS.intersection(sys.modules):
            gc.unfreeze()
        else:
            gc.collect()
            gc.freeze()
