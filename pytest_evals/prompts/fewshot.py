"""Selects the few-shot examples of each document.

Draws are positions in a pool. lm-eval draws them from one random stream in document
order; they are drawn in the same order here, only those that are needed, independent of
the selection and of the order of access.

Equals lm-eval 0.4.13, ``api/samplers.py`` and ``api/task.py``, ``fewshot_context``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from random import Random
from typing import Any, Protocol

from pytest_evals.core.registry import Registry
from pytest_evals.errors import EvalsError

Rows = Sequence[Mapping[str, Any]]


class Sampler(Protocol):
    """Selects the few-shot examples of a document."""

    def shots(self, index: int) -> tuple[int, ...]:
        """Return the positions in the pool for the document at ``index``. Raises
        EvalsError if the pool has too few other rows."""
        ...


class DefaultSampler:
    """Seeded draw from one random stream for all documents."""

    def __init__(self, pool: Rows, n: int, seed: int, asked: Rows | None) -> None:
        """Create the sampler; ``asked`` contains the documents if they must not be
        their own examples."""
        needed = n + 1 if asked is not None else n
        if needed > len(pool):
            raise EvalsError(_pool_error(n, len(pool), needed))
        self._pool, self._n, self._documents = pool, n, asked
        self._random = Random(seed)
        self._drawn: list[tuple[int, ...]] = []

    def shots(self, index: int) -> tuple[int, ...]:
        """Return positions in the pool; earlier documents are drawn first."""
        while len(self._drawn) <= index:
            self._drawn.append(self._draw(len(self._drawn)))
        drawn = self._drawn[index]
        if len(drawn) < self._n:
            raise EvalsError(_too_few_others(self._n))
        return drawn

    def _draw(self, index: int) -> tuple[int, ...]:
        everything = range(len(self._pool))
        if self._documents is None:
            return draw_positions(self._random, everything, self._n)
        row = self._documents[index]
        drawn = draw_positions(self._random, everything, self._n + 1)
        others = [i for i in drawn if not _is_same(self._pool[i], row)][: self._n]
        if len(others) == self._n:
            return tuple(others)
        rest = [i for i in everything if not _is_same(self._pool[i], row)]
        if len(rest) < self._n:
            return ()
        return draw_positions(self._random, rest, self._n)


class FirstSampler:
    """The first rows of the pool, the same for all documents."""

    def __init__(self, pool: Rows, n: int, seed: int, asked: Rows | None) -> None:
        """Create the sampler; ``asked`` contains the documents if they must not be
        their own examples. ``seed`` has no effect."""
        if n > len(pool):
            raise EvalsError(_pool_error(n, len(pool), n))
        self._pool, self._n, self._documents = pool, n, asked

    def shots(self, index: int) -> tuple[int, ...]:
        """Return positions in the pool."""
        if self._documents is None:
            return tuple(range(self._n))
        row = self._documents[index]
        others = (
            number
            for number, other in enumerate(self._pool)
            if not _is_same(other, row)
        )
        first = tuple(islice(others, self._n))
        if len(first) < self._n:
            raise EvalsError(_too_few_others(self._n))
        return first


SAMPLERS: Registry[type[DefaultSampler] | type[FirstSampler]] = Registry(
    "sampler", {"default": DefaultSampler, "first_n": FirstSampler}
)
"""Valid names of ``fewshot_config.sampler``."""


def draw_positions(random: Random, positions: Sequence[int], n: int) -> tuple[int, ...]:
    """Return ``n`` of the positions. The random stream is consumed depending on their
    number only, so drawing positions equals drawing rows."""
    return tuple(random.sample(positions, n))


def _is_same(row: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    if row is other:
        return True
    try:
        return bool(row == other)
    except ValueError:  # the truth value of an array is ambiguous
        return False


def _pool_error(n: int, size: int, needed: int) -> str:
    extra = " (one more than the examples, because a document is never its own example)"
    return (
        f"{n} few-shot examples need a pool of {needed} documents"
        f"{extra if needed > n else ''}, but it has {size}"
    )


def _too_few_others(n: int) -> str:
    return f"the pool has fewer than {n} documents that differ from this one"
