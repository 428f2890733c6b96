"""Base classes of custom few-shot samplers (lm-eval 0.4.13, ``api/samplers.py``).

:mod:`.prompts` draws from them as lm-eval does: one stream for all documents.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

from pytest_evals.errors import DocumentError, unknown_name


class ContextSampler:
    """Random few-shot examples from one seeded stream for all documents."""

    def __init__(
        self,
        df: Sequence[Any] | None = None,
        *,
        rnd: int | None = None,
        fewshot_indices: list[int] | None = None,
        **kwargs: Any,
    ) -> None:
        """Accept the pool ``df``, the seed ``rnd``, and ``fewshot_indices``, positions
        of the pool to use."""
        self.rnd = Random(rnd)
        self.df = df or []
        self.fewshot_indices = fewshot_indices

    def set_rnd(self, rnd: int | None) -> ContextSampler:
        """Reset the stream with a seed."""
        self.rnd = Random(rnd)
        return self

    def replace_df(self, df: Sequence[Any]) -> ContextSampler:
        """Replace the pool."""
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
        """Draw ``n`` rows of the pool that differ from ``eval_doc``. Raises
        DocumentError if the pool is too small."""
        if n == 0:
            return []
        if df:
            self.df = df
        pool = self.fewshot_docs()
        if not eval_doc:
            return self._draw(pool, n)
        others = self.rm_eval_doc(eval_doc, self._draw(pool, n + 1), n)
        if len(others) == n:
            return others
        return self._draw(self.rm_eval_doc(eval_doc, pool), n)

    @staticmethod
    def rm_eval_doc(doc: Any, _iter: Iterable[Any], n: int | None = None) -> list[Any]:
        """The first ``n`` rows that differ from a document."""
        return [row for row in _iter if row != doc][:n]

    def _draw(self, pool: list[Any], n: int) -> list[Any]:
        return self.rnd.sample(_check_size(pool, n), n)


class FirstNSampler(ContextSampler):
    """The first rows of the pool."""

    def sample(
        self, n: int, eval_doc: Any = None, df: Any = None, **kwargs: Any
    ) -> Sequence[Any]:
        """The first ``n`` rows of the pool that differ from ``eval_doc``. Raises
        DocumentError if the pool is too small."""
        pool = list(self.df)
        if eval_doc is not None:
            pool = self.rm_eval_doc(eval_doc, pool)
        return _check_size(pool, n)[:n]


_SAMPLERS = {"default": ContextSampler, "first_n": FirstNSampler}


def get_sampler(name: str) -> type[ContextSampler]:
    """The sampler class of a name in task files. Raises KeyError if the name is
    unknown."""
    if name not in _SAMPLERS:
        raise KeyError(unknown_name("sampler", name, _SAMPLERS))
    return _SAMPLERS[name]


def _check_size(pool: list[Any], n: int) -> list[Any]:
    if len(pool) < n:
        raise DocumentError(
            f"{n} few-shot examples need as many rows; the pool has {len(pool)}"
        )
    return pool
