"""Keep the garbage collector from scanning items, records and reports repeatedly."""

from __future__ import annotations

import gc

ALLOCATIONS = 20_000
"""New objects between two collections. Items, records and reports live to the end, and
a collection every few documents takes a tenth of the plugin's time."""
LOOKS = 100
"""Such collections between two of the objects that have survived the last one."""


class Garbage:
    """Collects less often for as long as a session lasts."""

    def __init__(self) -> None:
        """Raise the thresholds, unless collection is off."""
        self._thresholds = gc.get_threshold()
        new, middle, old = self._thresholds
        if new:
            gc.set_threshold(max(ALLOCATIONS, new), max(LOOKS, middle), old)

    @staticmethod
    def freeze() -> None:
        """Leave out what is there now: it lives to the end."""
        gc.freeze()

    def end(self) -> None:
        """Restore the thresholds; and let pytest and the interpreter end without a look
        at each item and report: what survives one collection is no garbage."""
        gc.set_threshold(*self._thresholds)
        gc.collect()
        gc.freeze()
