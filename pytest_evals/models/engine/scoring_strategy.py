"""Interface of scoring strategies: results of spans, and the selected strategy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from pytest_evals.models.engine.batches import BatchBudget
from pytest_evals.models.tokens.request_encoder import InvalidRequestError
from pytest_evals.models.tokens.spans import ScoredSpan


class SpanScore(NamedTuple):
    """Result of one span.

    Args:
        logprob: Sum over the scored tokens, in nats.
        greedy: Whether each scored token is the most likely one.
        finite: Whether all logits were finite.
    """

    logprob: float
    greedy: bool
    finite: bool


class ScoredBatch(NamedTuple):
    """Results of spans that ran in one batch.

    Args:
        scored: Position of a span → its score or error.
        elapsed_s: Seconds it took.
    """

    scored: dict[int, SpanScore | InvalidRequestError]
    elapsed_s: float


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
    """The selected strategy.

    Args:
        path: The path.
        note: Warning to show the user; empty for none.
        batch_tokens: Tokens of a batch; 0 for as many as the memory holds.
    """

    path: ScoringStrategy
    note: str
    batch_tokens: int
