"""Spans of tokens to score, their results, and the interface of scoring strategies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from pytest_evals.models.hf.batches import BatchBudget
from pytest_evals.models.hf.tokenization.encoder import Ids
from pytest_evals.models.hf.tokenization.request_encoder import (
    InvalidRequestError,
    TokenPair,
)


@dataclass(frozen=True, slots=True, eq=False)
class ScoredSpan:
    """A sequence whose last tokens are scored.

    Args:
        tokens: (C + N,) context, at least one token, then what is scored.
        n_scored: N, at least 1.
        n_truncated: Tokens of the context that were cut off.
    """

    tokens: Ids
    n_scored: int
    n_truncated: int = 0


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


def span_of(pair: TokenPair, max_length: int) -> ScoredSpan | InvalidRequestError:
    """A pair as a span: its last ``max_length + 1`` tokens, of which the last is scored
    but not an input (lm-eval 0.4.13, ``HFLM._loglikelihood_tokens``)."""
    n = len(pair.continuation)
    if n > max_length:
        return InvalidRequestError(
            f"the continuation has {n} tokens, and the model's window only {max_length}"
        )
    tokens = np.concatenate([pair.context, pair.continuation])
    cut = max(0, len(tokens) - (max_length + 1))
    return ScoredSpan(tokens[cut:], n, cut)


def windows_of(ids: Ids, prefix_id: int, max_length: int) -> list[ScoredSpan]:
    """Rolling windows of a document; each token is scored once.

    The first window follows the prefix token. Each later one scores ``max_length`` new
    tokens after one token of context; the last, shorter one gets as much context as
    fits (lm-eval 0.4.13, ``utils.get_rolling_token_windows`` with ``context_len=1``).
    """
    tokens = np.concatenate([np.asarray([prefix_id], dtype=ids.dtype), ids])
    spans = []
    for start in range(0, len(ids), max_length):
        n = min(max_length, len(ids) - start)
        end = start + n + 1  # in ``tokens``, one further than in ``ids``
        spans.append(ScoredSpan(tokens[max(0, end - (max_length + 1)) : end], n))
    return spans
