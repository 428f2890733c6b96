"""Samplers of shots that tasks derive their own from (lm-eval 0.4.13,
``api/samplers.py``).

They are drawn from by :mod:`.prompts` in lm-eval's way, one stream for all documents.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

from pytest_evals.errors import DocumentError, did_you_mean


class ContextSampler:
    """A seeded draw from one stream for all documents."""

    def __init__(
        self,
        df: Sequence[Any] | None = None,
        *,
        rnd: int | None = None,
        fewshot_indices: list[int] | None = None,
        **kwargs: Any,
    ) -> None:
        """``df`` is the pool, ``rnd`` the seed, ``fewshot_indices`` what of the pool is
        used."""
        self.rnd = Random(rnd)
        self.df = df or []
        self.fewshot_indices = fewshot_indices

    def set_rnd(self, rnd: int | None) -> ContextSampler:
        """Begin the stream with a seed."""
        self.rnd = Random(rnd)
        return self

    def replace_df(self, df: Sequence[Any]) -> ContextSampler:
        """Draw from another pool."""
        self.df = df
        return self

    def fewshot_docs(self) -> list[Any]:
        """The pool."""
        if self.fewshot_indices:
            return [self.df[i] for i in self.fewshot_indices]
        return list(self.df)

    def sample(
        self, n: int, eval_doc: Any = None, df: Any = None, **kwargs: Any
    ) -> Sequence[Any]:
        """``n`` rows of the pool, none of them equal to ``eval_doc``.

        Raises:
            DocumentError: There are not as many.
        """
        if n == 0:
            return []
        if df:
            self.df = df
        pool = self.fewshot_docs()
        if not eval_doc:
            return self._drawn(pool, n)
        others = self.rm_eval_doc(eval_doc, self._drawn(pool, n + 1), n)
        if len(others) == n:
            return others
        return self._drawn(self.rm_eval_doc(eval_doc, pool), n)

    @staticmethod
    def rm_eval_doc(doc: Any, _iter: Iterable[Any], n: int | None = None) -> list[Any]:
        """The first ``n`` rows that differ from a document."""
        return [row for row in _iter if row != doc][:n]

    def _drawn(self, pool: list[Any], n: int) -> list[Any]:
        return self.rnd.sample(_enough(pool, n), n)


class FirstNSampler(ContextSampler):
    """The first rows of the pool."""

    def sample(
        self, n: int, eval_doc: Any = None, df: Any = None, **kwargs: Any
    ) -> Sequence[Any]:
        """``n`` rows of the pool, none of them equal to ``eval_doc``.

        Raises:
            DocumentError: There are not as many.
        """
        pool = list(self.df)
        if eval_doc is not None:
            pool = self.rm_eval_doc(eval_doc, pool)
        return _enough(pool, n)[:n]


_SAMPLERS = {"default": ContextSampler, "first_n": FirstNSampler}


def get_sampler(name: str) -> type[ContextSampler]:
    """The sampler of a name in task files.

    Raises:
        KeyError: There is none.
    """
    if name not in _SAMPLERS:
        hint = did_you_mean(name, list(_SAMPLERS))
        raise KeyError(f"no sampler called {name!r}{hint}")
    return _SAMPLERS[name]


def _enough(pool: list[Any], n: int) -> list[Any]:
    if len(pool) < n:
        raise DocumentError(f"{n} shots need as many rows, and there are {len(pool)}")
    return pool
