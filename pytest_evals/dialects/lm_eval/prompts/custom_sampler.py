"""Custom few-shot samplers: classes like lm-eval's ``ContextSampler``.

A sampler draws rows in document order. It is called in that order, up to the requested
document, and its rows are stored as positions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Any

from pytest_evals.data.calls import error_text
from pytest_evals.errors import EvalsError

Rows = Sequence[Mapping[str, Any]]


class CustomSampler:
    """Few-shot examples drawn by a user's sampler."""

    def __init__(
        self, make: Callable[..., Any], pool: Rows, n: int, seed: int, excluded: Rows
    ) -> None:
        """Create the sampler, as lm-eval 0.4.13 does (``api/task.py``).

        Args:
            make: Called with the rows of the pool and ``rnd=None``; returns an object
                with ``set_rnd(seed)`` and ``sample(n=…, eval_doc=…)``.
            pool: Rows to draw from.
            n: Number of few-shot examples.
            seed: Seed of the draw.
            excluded: The documents, if each must be excluded from its own few-shot
                examples; otherwise empty.

        Raises:
            EvalsError: Creating it failed.
        """
        self._pool, self._n, self._excluded = list(pool), n, excluded
        self._positions = {id(row): i for i, row in enumerate(self._pool)}
        self._drawn: list[tuple[int, ...] | str] = []
        self._lock = Lock()
        self._name = getattr(make, "__name__", type(make).__name__)
        try:
            self._sampler = make(list(self._pool), rnd=None)
            self._sampler.set_rnd(seed)
        except Exception as error:
            raise EvalsError(f"{self._name}: {error_text(error)}") from error

    def shots(self, index: int) -> tuple[int, ...]:
        """Positions in the pool; earlier documents are drawn first.

        Raises:
            EvalsError: The sampler failed for this document, or returned a row that is
                not in the pool.
        """
        with self._lock:
            while len(self._drawn) <= index:
                self._drawn.append(self._draw(len(self._drawn)))
        drawn = self._drawn[index]
        if isinstance(drawn, str):
            raise EvalsError(drawn)
        return drawn

    def _draw(self, index: int) -> tuple[int, ...] | str:
        row = self._excluded[index] if self._excluded else None
        try:
            rows = list(self._sampler.sample(n=self._n, eval_doc=row))
        except Exception as error:  # noqa: BLE001  reported with its document
            return f"{self._name}: {error_text(error)}"
        positions = [self._position(each) for each in rows]
        if None in positions:
            return f"{self._name} returned a row that is not in the pool"
        return tuple(at for at in positions if at is not None)

    def _position(self, row: Mapping[str, Any]) -> int | None:
        known = self._positions.get(id(row))
        if known is None and row in self._pool:
            return self._pool.index(row)
        return known
