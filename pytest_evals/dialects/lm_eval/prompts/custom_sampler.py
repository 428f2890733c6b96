"""A sampler of the user's own: a class like lm-eval's ``ContextSampler``.

It draws rows while documents pass by in their order; so it is asked in that order, as
far as documents are asked for, and its rows are kept as positions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Any

from pytest_evals.data.calls import fault_of
from pytest_evals.errors import EvalsError

Rows = Sequence[Mapping[str, Any]]


class OwnSampler:
    """The shots that a user's sampler draws."""

    def __init__(
        self, make: Callable[..., Any], pool: Rows, n: int, seed: int, asked: Rows
    ) -> None:
        """Make the sampler, as lm-eval 0.4.13 does (``api/task.py``).

        Args:
            make: Called with the rows of the pool, and ``rnd=None``; gives an object
                with ``set_rnd(seed)`` and ``sample(n=…, eval_doc=…)``.
            pool: The rows that shots are taken from.
            n: How many.
            seed: Seed of the draw.
            asked: The documents, if they must not be among their own shots; else empty.

        Raises:
            EvalsError: Making it failed.
        """
        self._pool, self._n, self._asked = list(pool), n, asked
        self._positions = {id(row): i for i, row in enumerate(self._pool)}
        self._drawn: list[tuple[int, ...] | str] = []
        self._lock = Lock()
        self._name = getattr(make, "__name__", type(make).__name__)
        try:
            self._sampler = make(list(self._pool), rnd=None)
            self._sampler.set_rnd(seed)
        except Exception as error:
            raise EvalsError(f"{self._name}: {fault_of(error)}") from error

    def shots(self, index: int) -> tuple[int, ...]:
        """Positions in the pool; everything before ``index`` is drawn first.

        Raises:
            EvalsError: The sampler failed for this document, or gave foreign rows.
        """
        with self._lock:
            while len(self._drawn) <= index:
                self._drawn.append(self._draw(len(self._drawn)))
        drawn = self._drawn[index]
        if isinstance(drawn, str):
            raise EvalsError(drawn)
        return drawn

    def _draw(self, index: int) -> tuple[int, ...] | str:
        row = self._asked[index] if self._asked else None
        try:
            rows = list(self._sampler.sample(n=self._n, eval_doc=row))
        except Exception as error:  # noqa: BLE001  told with its document
            return f"{self._name}: {fault_of(error)}"
        positions = [self._position(each) for each in rows]
        if None in positions:
            return f"{self._name} gave a row that is not in the pool"
        return tuple(at for at in positions if at is not None)

    def _position(self, row: Mapping[str, Any]) -> int | None:
        known = self._positions.get(id(row))
        if known is None and row in self._pool:
            return self._pool.index(row)
        return known
