"""Which shots a task class's sampler draws for which document.

lm-eval (0.4.13, ``api/samplers.py``) draws while documents pass by in their order. So
the sampler is asked in that order here as well, as far as documents are asked for; and
prompts are made of what it drew, in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any, NamedTuple


class Drawn(NamedTuple):
    """What stands for the sampler while one document's prompt is made."""

    rows: Sequence[Any] = ()
    fault: Exception | None = None

    def sample(self, n: int, eval_doc: Any = None, **_more: Any) -> list[Any]:
        """The document's shots; copies, so that no document sees what a class does to
        those of another.

        Raises:
            Exception: What the sampler raised.
        """
        if self.fault is not None:
            raise self.fault
        return deepcopy(list(self.rows))


class ShotStream:
    """The draws of a sampler."""

    def __init__(
        self, task: Any, n: int, row: Callable[[int], Any], exclude_own: bool
    ) -> None:
        """Take the sampler out of a task.

        Args:
            task: A ``ConfigurableTask``, whose shots all come from its sampler.
            n: Shots of each document.
            row: Position → document.
            exclude_own: Whether a document that is in the pool is kept out of its own
                shots also where lm-eval lets it in.
        """
        self._sampler, self._n, self._row = task.sampler, n, row
        self._exclude_own = exclude_own
        self._alone = task.fewshot_cfg.split == task.config.test_split
        self._drawn: list[Drawn] = []

    def of(self, index: int) -> Drawn:
        """The shots of a document; everything before it is drawn first."""
        while len(self._drawn) <= index:
            self._drawn.append(self._draw(len(self._drawn)))
        return self._drawn[index]

    def _draw(self, index: int) -> Drawn:
        row = self._row(index)
        try:
            alone = self._alone or (self._exclude_own and row in self._sampler.df)
            other = row if alone else None
            return Drawn(self._sampler.sample(n=self._n, eval_doc=other))
        except Exception as fault:  # noqa: BLE001  told with its document
            return Drawn(fault=fault)
