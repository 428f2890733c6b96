"""Scoring for models whose outputs depend on the sequence length (see
``length_dependence``): long sequences use another strategy than short ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_evals.models.engine.batches import BatchBudget
from pytest_evals.models.engine.scoring_strategy import ScoredBatch, ScoringStrategy
from pytest_evals.models.tokens.spans import ScoredSpan


class LongContextStrategy:
    """A fast strategy up to a length, and a slower one beyond."""

    def __init__(
        self,
        path: ScoringStrategy,
        other: ScoringStrategy,
        length: int,
        *,
        mixes: bool = False,
    ) -> None:
        """Select the strategy by the length of each sequence.

        Args:
            path: For those up to ``length``.
            length: Tokens.
            mixes: Whether ``other`` takes sequences of different lengths in one pass.
        """
        self.name = path.name
        self._path = path
        self._other = other
        self._length = length
        self._mixes = mixes

    def score(
        self, spans: Sequence[ScoredSpan], budget: BatchBudget
    ) -> Iterator[ScoredBatch]:
        """Score all spans; yields batches as they finish."""
        by_length: dict[int, list[int]] = {}
        for i, span in enumerate(spans):
            length = max(len(span.tokens) - 1, self._length)
            if self._mixes:
                length = min(length, self._length + 1)
            by_length.setdefault(length, []).append(i)
        # Upwards, for a scale that has grown stays until a short sequence comes.
        for length, numbers in sorted(by_length.items()):
            path = self._path if length == self._length else self._other
            for done in path.score([spans[i] for i in numbers], budget):
                scored = {numbers[i]: one for i, one in done.scored.items()}
                yield ScoredBatch(scored, done.elapsed_s)

    def forget(self) -> None:
        """Free the memory of cached prefixes."""
        self._path.forget()
        self._other.forget()
