"""Scoring with one row per sequence, padded on the right; the reference for the faster
strategies.

Spans that are equal up to their last token share one row. The model's only input are
token ids.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pytest_evals.models.engine.device_memory import BatchBudget, in_batches
from pytest_evals.models.engine.scorer import ScoredBatch, SpanResult, SpanScore
from pytest_evals.models.hf.forward import Forward, LogitsChunk, TokenCounts
from pytest_evals.models.tokens.encoder import Ids
from pytest_evals.models.tokens.request_encoder import InvalidRequestError
from pytest_evals.models.tokens.spans import ScoredSpan


class SpanTargets(NamedTuple):
    """Places and ids of a span's scored tokens."""

    span: int
    places: npt.NDArray[np.int64]  # (N,) flat places in the batch, one a token
    targets: npt.NDArray[np.int32]  # (N,) ids of these tokens


class BatchTargets(NamedTuple):
    """The scored tokens of a batch."""

    places: Tensor  # (P,) int64, ascending flat places of needed logits, each once
    spans: Sequence[int]  # The M spans' positions
    at: Tensor  # (S,) for each scored token its index into ``places``, ascending
    target: Tensor  # (S,) its id
    span: Tensor  # (S,) its span, as an index into ``spans``


def batch_targets(spots: Sequence[SpanTargets]) -> BatchTargets:
    """The targets of a batch with at least one span, each place once."""
    flat = np.concatenate([spot.places for spot in spots])
    target = np.concatenate([spot.targets for spot in spots]).astype(np.int64)
    span = np.repeat(np.arange(len(spots)), [len(spot.places) for spot in spots])
    places, at = np.unique(flat, return_inverse=True)
    order = np.argsort(at, kind="stable")
    found = (torch.from_numpy(column[order]) for column in (at, target, span))
    return BatchTargets(torch.from_numpy(places), [spot.span for spot in spots], *found)


def sum_logprobs(
    targets: BatchTargets, run: Callable[[Tensor], Iterable[LogitsChunk]]
) -> dict[int, SpanScore]:
    """Position of a span → its score. ``run``: places → the logits at them, chunk by
    chunk.

    Everything is computed on the device and transferred at once; in float32 for all
    models: lm-eval 0.4.13 uses the model's dtype, which rounds log-probabilities to
    three digits in bfloat16. For float32 models the results are identical.
    """
    values: list[Tensor] = []
    hits: list[Tensor] = []
    for start, logits in run(targets.places):
        ends = torch.tensor([start, start + len(logits)])
        first, last = torch.searchsorted(targets.at, ends).tolist()
        at = (targets.at[first:last] - start).to(logits.device)
        target = targets.target[first:last].to(logits.device)
        total = logits.logsumexp(dim=-1)  # (p,)
        # Infinite logits give a total that is not a number for any token of the place.
        total = torch.where(total.isfinite(), total, torch.nan)
        values.append(logits[at, target] - total[at])
        hits.append(logits.argmax(dim=-1)[at] == target)
    sums = _sums(targets, torch.cat(values), torch.cat(hits))
    return {
        i: SpanScore(logprob, n_missed == 0, n_nonfinite == 0)
        for i, (logprob, n_missed, n_nonfinite) in zip(
            targets.spans, sums.tolist(), strict=True
        )
    }


def _sums(targets: BatchTargets, logprobs: Tensor, hits: Tensor) -> Tensor:
    """(M, 3) on the CPU: log-probability, number of non-greedy tokens, and number of
    non-finite tokens.

    Sums are float64 so that they do not depend on the order of addition, which varies
    on CUDA; only Apple's devices lack the dtype.
    """
    exact = torch.float32 if logprobs.device.type == "mps" else torch.float64
    columns = [logprobs, ~hits, logprobs.isnan()]
    table = torch.stack([column.to(exact) for column in columns], dim=1)  # (S, 3)
    sums = table.new_zeros((len(targets.spans), 3))
    return sums.index_add(0, targets.span.to(table.device), table).cpu()


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


@dataclass(slots=True, eq=False)
class PaddedStrategy:
    """Scores each sequence in its own row."""

    name = "plain"

    forward: Forward
    counters: TokenCounts

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
            scored: dict[int, SpanResult] = {}
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
