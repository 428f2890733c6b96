"""Log-likelihood requests: from encoded requests to responses.

Continuations and rolling windows are scored in the same batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from pytest_evals.core.request import Response
from pytest_evals.models.engine.device_memory import BatchBudget
from pytest_evals.models.prefetch import Answer, AnswerBatches
from pytest_evals.models.tokens.encoder import Ids
from pytest_evals.models.tokens.request_encoder import (
    InvalidRequestError,
    RequestEncoder,
    TokenPair,
)
from pytest_evals.models.tokens.spans import ScoredSpan, span_of, windows_of


class SpanScore(NamedTuple):
    """Result of one span."""

    logprob: float  # Sum over the scored tokens, in nats
    greedy: bool  # Whether each scored token is the most likely one
    finite: bool  # Whether all logits were finite


SpanResult = SpanScore | InvalidRequestError


class ScoredBatch(NamedTuple):
    """Results of spans that ran in one batch."""

    scored: dict[int, SpanResult]  # By the position of a span
    elapsed_s: float  # Seconds it took


class ScoringStrategy(Protocol):
    """Computes log-probabilities of spans."""

    name: str

    def score(
        self, spans: Sequence[ScoredSpan], budget: BatchBudget
    ) -> Iterator[ScoredBatch]:
        """Score all spans; yields batches as they finish."""

    def forget(self) -> None:
        """Free memory that is cached between calls."""


class StrategyChoice(NamedTuple):
    """The selected strategy."""

    path: ScoringStrategy
    note: str  # Warning to show the user; empty for none
    batch_tokens: int  # Tokens of a batch; 0 for as many as the memory holds


NOT_A_NUMBER = "the model's logits are not numbers (NaN or infinite)"


@dataclass(slots=True, kw_only=True)
class _Open:
    """A request with unfinished spans."""

    n_left: int
    n_tokens: int
    n_prompt_tokens: int = 0
    n_truncated: int = 0
    rolling: bool = False
    logprob: float = 0.0
    greedy: bool = True
    elapsed_s: float = 0.0
    error: str = ""

    def add(self, scored: SpanResult, share: float) -> None:
        self.n_left -= 1
        self.elapsed_s += share
        if isinstance(scored, InvalidRequestError):
            self.error = str(scored)
        elif not scored.finite:
            self.error = NOT_A_NUMBER
        else:
            self.logprob += scored.logprob
            self.greedy = self.greedy and scored.greedy

    def response(self) -> Response:
        if self.error:
            return Response(error=self.error, elapsed_s=self.elapsed_s)
        return Response(
            logprob=self.logprob,
            greedy=None if self.rolling else self.greedy,
            n_prompt_tokens=self.n_prompt_tokens,
            n_tokens=self.n_tokens,
            n_truncated=self.n_truncated,
            elapsed_s=self.elapsed_s,
        )


@dataclass(slots=True)
class _Work:
    spans: list[ScoredSpan]
    owners: list[int]  # For each span, the position of its request
    open: dict[int, _Open]  # Position → request under way
    refused: dict[int, Response]  # Position → response of a request that needs no model

    def add(self, position: int, spans: list[ScoredSpan], request: _Open) -> None:
        self.spans.extend(spans)
        self.owners.extend([position] * len(spans))
        self.open[position] = request


class LoglikelihoodScorer:
    """Answers log-likelihood requests."""

    def __init__(
        self,
        encoder: RequestEncoder,
        choice: StrategyChoice,
        budget: BatchBudget,
        max_length: int,
        pair_length: int | None = None,
    ) -> None:
        """Score with a strategy. ``max_length``: context window in tokens.
        ``pair_length``: context window for continuations after a context; ``None`` for
        ``max_length``."""
        self._encoder = encoder
        self._choice = choice
        self._budget = budget
        self._max_length = max_length
        self._pair_length = max_length if pair_length is None else pair_length
        self.notes: dict[str, None] = {}  # Warnings about the results so far, each once

    def answer(
        self, pairs: Mapping[int, TokenPair], texts: Mapping[int, Ids]
    ) -> AnswerBatches:
        """Responses with the positions of their requests, batch by batch. ``pairs``:
        continuations after their contexts, by position. ``texts``: whole texts, by
        position."""
        work = self._work(pairs, texts)
        yield [*work.refused.items()]
        if not work.spans:
            return
        if self._choice.note:
            self.notes[self._choice.note] = None
        for done in self._choice.path.score(work.spans, self._budget):
            share = done.elapsed_s / max(1, len(done.scored))
            finished: list[Answer] = []
            for i, scored in done.scored.items():
                request = work.open[work.owners[i]]
                request.add(scored, share)
                if request.n_left == 0:
                    finished.append((work.owners[i], request.response()))
            yield finished

    def forget(self) -> None:
        """Free memory that is cached between calls."""
        self._choice.path.forget()

    def _work(self, pairs: Mapping[int, TokenPair], texts: Mapping[int, Ids]) -> _Work:
        work = _Work([], [], {}, {})
        for position, pair in pairs.items():
            span = span_of(pair, self._pair_length)
            if isinstance(span, InvalidRequestError):
                work.refused[position] = Response(error=str(span))
                continue
            request = _Open(
                n_left=1,
                n_tokens=span.n_scored,
                n_prompt_tokens=len(pair.context),
                n_truncated=span.n_truncated,
            )
            work.add(position, [span], request)
        first = self._encoder.prefix()
        for position, ids in texts.items():
            if isinstance(first, InvalidRequestError):
                work.refused[position] = Response(error=str(first))
            elif len(ids) == 0:
                # The empty document has probability 1.
                work.refused[position] = Response(logprob=0.0)
            else:
                if ids[0] == first[0]:
                    self.notes[_BEGUN_TWICE] = None
                spans = windows_of(ids, int(first[0]), self._max_length)
                request = _Open(n_left=len(spans), n_tokens=len(ids), rolling=True)
                work.add(position, spans, request)
        return work


_BEGUN_TWICE = (
    "whole texts begin with the tokenizer's own first token, whose log-probability "
    "after itself is part of their numbers, as in lm-eval; add_bos_token=false leaves "
    "it out"
)
