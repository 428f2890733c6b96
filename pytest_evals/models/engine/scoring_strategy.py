"""Interface of scoring strategies: results of spans, and the selected strategy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from pytest_evals.models.engine.batches import BatchBudget
from pytest_evals.models.tokens.request_encoder import InvalidRequestError
from pytest_evals.models.tokens.spans import ScoredSpan


class SpanScore(NamedTuple):
    """Result of one span."""

    logprob: float  # Sum over the scored tokens, in nats
    greedy: bool  # Whether each scored token is the most likely one
    finite: bool  # Whether all logits were finite


class ScoredBatch(NamedTuple):
    """Results of spans that ran in one batch."""

    scored: dict[int, SpanScore | InvalidRequestError]
    """Position of a span → its score or error."""
    elapsed_s: float  # Seconds it took


class ScoringStrategy(Protocol):
    """Computes log-probabilities of spans."""

    name: str

    def score(
        self, spans: Sequence[ScoredSpan], budget: BatchBudget
    ) -> Iterator[ScoredBatch]:
        """Score all spans; yields batches as they finish."""
        ...

    def forget(self) -> None:
        """Free memory that is cached between calls."""
        ...


class StrategyChoice(NamedTuple):
    """The selected strategy."""

    path: ScoringStrategy
    note: str  # Warning to show the user; empty for none
    batch_tokens: int  # Tokens of a batch; 0 for as many as the memory holds
