"""Few-shot examples that a task class's sampler draws for each document.

lm-eval (0.4.13, ``api/samplers.py``) draws from one stream in document order. The
sampler is therefore called in that order, up to the requested document; prompts can
then be built in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any, NamedTuple


class PresetSampler(NamedTuple):
    """Replaces the sampler while one document's prompt is built."""

    rows: Sequence[Any] = ()
    fault: Exception | None = None

    def sample(self, n: int, eval_doc: Any = None, **_more: Any) -> list[Any]:
        """Copies of the document's few-shot examples, so that a class cannot modify
        those of other documents.

        Raises:
            Exception: The sampler's exception.
        """
        if self.fault is not None:
            raise self.fault
        return deepcopy(list(self.rows))


class ShotStream:
    """Draws from a sampler in document order."""

    def __init__(
        self, task: Any, n: int, row: Callable[[int], Any], exclude_own: bool
    ) -> None:
        """Take the sampler of a task.

        Args:
            task: A ``ConfigurableTask``, whose few-shot examples all come from its
                sampler.
            row: Position → document.
            exclude_own: Whether to exclude a document from its own few-shot examples
                even if lm-eval does not.
        """
        self._sampler, self._n, self._row = task.sampler, n, row
        self._exclude_own = exclude_own
        self._alone = task.fewshot_cfg.split == task.config.test_split
        self._drawn: list[PresetSampler] = []

    def of(self, index: int) -> PresetSampler:
        """Few-shot examples of a document; earlier documents are drawn first."""
        while len(self._drawn) <= index:
            self._drawn.append(self._draw(len(self._drawn)))
        return self._drawn[index]

    def _draw(self, index: int) -> PresetSampler:
        row = self._row(index)
        try:
            alone = self._alone or (self._exclude_own and row in self._sampler.df)
            other = row if alone else None
            return PresetSampler(self._sampler.sample(n=self._n, eval_doc=other))
        except Exception as fault:  # noqa: BLE001  reported with its document
            return PresetSampler(fault=fault)
