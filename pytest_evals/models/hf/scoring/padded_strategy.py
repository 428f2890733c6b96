"""Scoring with one row per sequence, padded on the right; the reference for the faster
strategies.

Spans that are equal up to their last token share one row. The model's only input are
token ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from pytest_evals.models.engine.batches import BatchBudget, in_batches
from pytest_evals.models.engine.scoring_strategy import ScoredBatch, SpanScore
from pytest_evals.models.hf.forward import Forward, LogitsChunk, TokenCounts
from pytest_evals.models.hf.scoring.logprobs import (
    SpanTargets,
    batch_targets,
    sum_logprobs,
)
from pytest_evals.models.tokens.encoder import Ids
from pytest_evals.models.tokens.request_encoder import InvalidRequestError
from pytest_evals.models.tokens.spans import ScoredSpan


class PaddedRow(NamedTuple):
    """Spans that share a row: their inputs are equal."""

    inputs: Ids  # (T,) what the model reads
    spans: tuple[int, ...]


def rows_of(spans: Sequence[ScoredSpan]) -> list[PaddedRow]:
    """Spans as rows, the longest first."""
    shared: dict[bytes, list[int]] = {}
    for i, span in enumerate(spans):
        shared.setdefault(span.tokens[:-1].tobytes(), []).append(i)
    rows = [PaddedRow(spans[m[0]].tokens[:-1], tuple(m)) for m in shared.values()]
    # Equal beginnings come next to each other, so that results do not depend on the
    # order of the requests.
    return sorted(rows, key=lambda row: (-len(row.inputs), row.inputs.tobytes()))


class PaddedStrategy:
    """Scores each sequence in its own row."""

    name = "plain"

    def __init__(self, forward: Forward, counters: TokenCounts) -> None:
        self.forward = forward
        self.counters = counters

    def score(
        self, spans: Sequence[ScoredSpan], budget: BatchBudget
    ) -> Iterator[ScoredBatch]:
        """Score all spans, the longest first; yields batches as they finish."""
        rows = rows_of(spans)
        batches = in_batches(
            rows,
            [len(row.inputs) for row in rows],
            lambda some: self._run(some, spans),
            budget,
        )
        for batch in batches:
            scored: dict[int, SpanScore | InvalidRequestError] = {}
            for row in batch.items:
                for i in row.spans:
                    result = batch.result
                    scored[i] = (
                        result if isinstance(result, InvalidRequestError) else result[i]
                    )
            yield ScoredBatch(scored, batch.elapsed_s)

    def forget(self) -> None:
        """Does nothing, since there is no cache."""

    def _run(
        self, rows: Sequence[PaddedRow], spans: Sequence[ScoredSpan]
    ) -> dict[int, SpanScore]:
        """Score a batch of rows: position of a span → its score."""
        width = max(len(row.inputs) for row in rows)
        ids = np.zeros((len(rows), width), dtype=np.int64)
        spots = []
        for r, row in enumerate(rows):
            end = len(row.inputs)
            ids[r, :end] = row.inputs
            for i in row.spans:
                n = spans[i].n_scored
                places = r * width + np.arange(end - n, end)
                spots.append(SpanTargets(i, places, spans[i].tokens[-n:]))

        def run(places: Tensor) -> Iterable[LogitsChunk]:
            return self.forward(torch.from_numpy(ids), places)

        with torch.inference_mode():
            scored = sum_logprobs(batch_targets(spots), run)
        self.counters.add(ids.size, sum(len(row.inputs) for row in rows))
        return scored
