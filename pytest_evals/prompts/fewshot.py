"""Which rows are the shots of which document.

Draws are positions in a pool. lm-eval draws them from one stream of random numbers
while documents pass by; so they are drawn here in the order of the documents as well,
as far as they are asked for, whatever is selected and in whatever order it is asked.

Equals lm-eval 0.4.13, ``api/samplers.py`` and ``api/task.py``, ``fewshot_context``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from threading import Lock
from typing import Any, Protocol

from pytest_evals.core.registry import Registry
from pytest_evals.errors import EvalsError

Rows = Sequence[Mapping[str, Any]]


class Sampler(Protocol):
    """Which rows of the pool are the shots of a document."""

    def shots(self, index: int) -> tuple[int, ...]:
        """Positions in the pool for the document at ``index``.

        Raises:
            EvalsError: The pool has not enough other rows.
        """
        ...


class DefaultSampler:
    """A seeded draw, one stream for all documents."""

    def __init__(self, pool: Rows, n: int, seed: int, asked: Rows | None) -> None:
        """``asked`` are the documents, if they must not be among their own shots."""
        needed = n + 1 if asked is not None else n
        if needed > len(pool):
            raise EvalsError(_too_small(n, len(pool), needed))
        self._pool, self._n, self._asked = pool, n, asked
        self._random = Random(seed)
        self._drawn: list[tuple[int, ...]] = []
        self._lock = Lock()

    def shots(self, index: int) -> tuple[int, ...]:
        """Positions in the pool; everything before ``index`` is drawn first."""
        with self._lock:
            while len(self._drawn) <= index:
                self._drawn.append(self._draw(len(self._drawn)))
        drawn = self._drawn[index]
        if len(drawn) < self._n:
            raise EvalsError(_too_few(self._n))
        return drawn

    def _draw(self, index: int) -> tuple[int, ...]:
        everything = range(len(self._pool))
        if self._asked is None:
            return draw_positions(self._random, everything, self._n)
        row = self._asked[index]
        drawn = draw_positions(self._random, everything, self._n + 1)
        others = [i for i in drawn if not _same(self._pool[i], row)][: self._n]
        if len(others) == self._n:
            return tuple(others)
        rest = [i for i in everything if not _same(self._pool[i], row)]
        if len(rest) < self._n:
            return ()
        return draw_positions(self._random, rest, self._n)


class FirstSampler:
    """The first rows of the pool, the same for all documents."""

    def __init__(self, pool: Rows, n: int, seed: int, asked: Rows | None) -> None:
        """``asked`` are the documents, if they must not be among their own shots;
        ``seed`` has no effect."""
        if n > len(pool):
            raise EvalsError(_too_small(n, len(pool), n))
        self._pool, self._n, self._asked = pool, n, asked

    def shots(self, index: int) -> tuple[int, ...]:
        """Positions in the pool."""
        if self._asked is None:
            return tuple(range(self._n))
        row = self._asked[index]
        first: list[int] = []
        for i in range(len(self._pool)):
            if len(first) == self._n:
                break
            if not _same(self._pool[i], row):
                first.append(i)
        if len(first) < self._n:
            raise EvalsError(_too_few(self._n))
        return tuple(first)


SAMPLERS: Registry[type[DefaultSampler] | type[FirstSampler]] = Registry(
    "sampler", {"default": DefaultSampler, "first_n": FirstSampler}
)
"""The names that ``fewshot_config.sampler`` may give."""


def draw_positions(random: Random, positions: Sequence[int], n: int) -> tuple[int, ...]:
    """``n`` of the positions. What is drawn from the stream depends on their number
    only, so drawing positions equals drawing rows."""
    return tuple(random.sample(positions, n))


def _same(row: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    if row is other:
        return True
    try:
        return bool(row == other)
    except ValueError:  # arrays have no one truth value
        return False


def _too_small(n: int, size: int, needed: int) -> str:
    own = " (one more than the shots, since a document is never its own shot)"
    return (
        f"{n} shots need a pool of {needed} documents"
        f"{own if needed > n else ''}, and there are {size}"
    )


def _too_few(n: int) -> str:
    return f"the pool has fewer than {n} documents that differ from this one"
