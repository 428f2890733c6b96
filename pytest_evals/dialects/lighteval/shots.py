"""Which documents of the pool are the shots of which document, as lighteval 0.13.0
chooses (``tasks/prompt_manager.py``, ``FewShotSampler``).

Draws are positions in the pool. Two things differ on purpose: a document is never its
own shot, and random numbers come from generators of the task's own. Without a seed of
the user's that of all tasks is 0, which is lighteval's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from threading import Lock
from typing import Protocol

from pytest_evals.core.doc import Doc
from pytest_evals.errors import EvalsError


@dataclass(frozen=True, slots=True)
class Pool:
    """Where shots come from.

    Args:
        docs: Its documents, in the order of their rows.
        own: Position of an evaluated document → the position in the pool of the
            document that was made of the same row; empty where none was.
    """

    docs: Sequence[Doc]
    own: Mapping[int, int]


class ShotSampler(Protocol):
    """Which documents of the pool are the shots of a document."""

    def shots(self, index: int) -> tuple[int, ...]:
        """Positions in the pool for the document at a position."""
        ...


class _Fixed:
    """The same shots for all documents."""

    def __init__(self, order: Sequence[int], n: int, own: Mapping[int, int]) -> None:
        self._order, self._n, self._own = order, n, own

    def shots(self, index: int) -> tuple[int, ...]:
        own = self._own.get(index)
        return tuple(at for at in self._order if at != own)[: self._n]


class _Drawn:
    """Shots that are drawn while documents pass by in their order."""

    def __init__(
        self, size: int, n: int, spare: int, own: Mapping[int, int], random: Random
    ) -> None:
        if n + spare > size:
            raise EvalsError(
                f"{n} shots need a pool of {n + spare} documents, and there are {size}"
            )
        self._size, self._n, self._spare = size, n, spare
        self._own, self._random = own, random
        self._draws: list[list[int]] = []
        self._lock = Lock()

    def shots(self, index: int) -> tuple[int, ...]:
        with self._lock:
            while len(self._draws) <= index:
                drawn = self._random.sample(range(self._size), self._n + self._spare)
                self._draws.append(drawn)
        own = self._own.get(index)
        return tuple(at for at in self._draws[index] if at != own)[: self._n]


def sampler_of(
    selection: str | None, pool: Pool, n: int, seed: int, random: Random
) -> ShotSampler:
    """The sampler of a task.

    Args:
        selection: Name of the way to choose; ``None`` for ``balanced``.
        pool: Where shots come from.
        n: How many, at least 1.
        seed: Seed of orders that are the same for all documents.
        random: The stream that shuffled the documents, for draws a document.

    Raises:
        EvalsError: The pool is too small to be drawn from.
    """
    choose = SELECTIONS[selection or "balanced"]
    if isinstance(choose, int):
        # With the pool among the documents one more is drawn, for the document itself.
        return _Drawn(len(pool.docs), n, choose or bool(pool.own), pool.own, random)
    return _Fixed(choose(pool.docs, n, seed), n, pool.own)


def _in_order(docs: Sequence[Doc], n: int, seed: int) -> list[int]:
    """As they stand; with another seed than 0 shuffled."""
    order = list(range(len(docs)))
    if seed:
        Random(seed).shuffle(order)
    return order


def _rotated(docs: Sequence[Doc], n: int, seed: int) -> list[int]:
    """As they stand, from the one behind as many rounds as the seed says."""
    start = (n * seed) % len(docs) if docs else 0
    return [*range(start, len(docs)), *range(start)]


def _balanced(docs: Sequence[Doc], n: int, seed: int) -> list[int]:
    """One of each label in turn, labels of the largest groups first; one more than
    wanted, should one of them be the document itself."""
    random = Random(seed)
    groups: dict[str, list[int]] = {}
    for position, doc in enumerate(docs):
        groups.setdefault(_label(doc), []).append(position)
    by_size: dict[int, list[str]] = {}
    for label in sorted(groups):
        by_size.setdefault(len(groups[label]), []).append(label)
    labels: list[str] = []
    for size in sorted(by_size, reverse=True):
        alike = by_size[size]
        random.shuffle(alike)
        labels += alike
    wanted = min(len(docs), n + 1)
    chosen: list[int] = []
    while len(chosen) < wanted:
        for label in labels:
            if groups[label] and len(chosen) < wanted:
                left = groups[label]
                chosen.append(left.pop(random.randrange(len(left))))
    return chosen


def _label(doc: Doc) -> str:
    """What a shot is sorted by: its class, else its first right answer."""
    if doc.fewshot_sorting_class:
        return str(doc.fewshot_sorting_class)
    golds = doc.get_golds()
    return str(golds[0]) if golds else ""


_Order = Callable[[Sequence[Doc], int, int], list[int]]

SELECTIONS: Mapping[str, _Order | int] = {
    "balanced": _balanced,
    "random": _in_order,
    "sequential": _rotated,
    "random_sampling_from_train": 0,
    "random_sampling": 1,
}
"""Name → an order of the pool for all documents; or how many more are drawn for each
document than it needs."""
