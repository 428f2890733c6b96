"""Scoring with shared prefixes: prefixes are computed once, and their continuations run
in batches of rows.

A row is either several packed sequences with a custom mask, or one sequence with the
model's own mask. Where attention to prefixes is separate, rows of several small groups
run in one pass. Spans with non-finite results, and rows that do not fit into memory,
are scored again by the padded strategy: in a packed row, one sequence's NaN affects all
others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from pytest_evals.models.engine.device_memory import (
    SMALLEST_PART,
    Batch,
    BatchBudget,
    in_batches,
)
from pytest_evals.models.engine.scorer import ScoredBatch, SpanResult, SpanScore
from pytest_evals.models.hf.forward import AttentionView, LogitsChunk, MemoryEstimate
from pytest_evals.models.hf.scoring.packing import (
    PackedRow,
    PrefixGroup,
    RowBatch,
    RowLayout,
    RowShape,
    groups_of,
    lay_out,
    pack,
)
from pytest_evals.models.hf.scoring.padded_strategy import (
    PaddedStrategy,
    SpanTargets,
    batch_targets,
    sum_logprobs,
)
from pytest_evals.models.hf.scoring.prefix_cache import PrefixCache
from pytest_evals.models.tokens.encoder import Ids
from pytest_evals.models.tokens.request_encoder import InvalidRequestError
from pytest_evals.models.tokens.spans import ScoredSpan, Trie, trie_of

ViewBuilder = Callable[[RowBatch, Sequence[Any]], AttentionView]
"""Function from rows on the device and the caches of their prefixes to their attention
view."""


class _Work(NamedTuple):
    """The spans of a call, and the limit of their batches."""

    trie: Trie
    spans: Sequence[ScoredSpan]
    budget: BatchBudget

    def prefix_of(self, row: PackedRow) -> Ids:
        return self.trie.sequences[int(row.members[0])][: row.depth]


@dataclass(eq=False)
class PrefixStrategy:
    """Scores groups of sequences with a cached prefix."""

    name: str
    see: ViewBuilder
    shape: RowShape
    estimate: MemoryEstimate
    plain: PaddedStrategy
    least: int | None = None
    """Tokens of a prefix from which a batch may contain rows after several prefixes;
    ``None`` for never."""
    n_alone: int = 0  # Number of spans that the padded strategy had to score

    def __post_init__(self) -> None:
        self.forward, self._counters = self.plain.forward, self.plain.counters
        self._prefixes = PrefixCache(self._read)

    def score(
        self, spans: Sequence[ScoredSpan], budget: BatchBudget
    ) -> Iterator[ScoredBatch]:
        """Score all spans; yields batches as they finish."""
        work = _Work(trie_of(spans), spans, budget)
        for rows in self._passes(work):
            yield from self._score_rows(work, rows)

    def forget(self) -> None:
        """Free the memory of the cached prefix."""
        self._prefixes.forget()

    @property
    def prefix_length(self) -> int:
        """Number of tokens of the cached prefix."""
        return len(self._prefixes.tokens)

    def _passes(self, work: _Work) -> Iterator[list[PackedRow]]:
        """The rows of each group; those of neighboring groups together if they fit into
        one batch, prefixes included."""
        rows: list[PackedRow] = []
        depths: list[int] = []
        for group in groups_of(work.trie, self.shape, self._prefixes.tokens):
            more, depth = self._cut(work, group), group.depth
            if rows and self._is_batch([*rows, *more], [*depths, depth], work.budget):
                rows += more
                depths.append(depth)
                continue
            if rows:
                yield rows
            rows, depths = more, [depth]
        if rows:
            yield rows

    def _is_batch(
        self, rows: Sequence[PackedRow], depths: Sequence[int], budget: BatchBudget
    ) -> bool:
        """Whether one pass over the rows of all groups is allowed, and faster than one
        for each group, although it is padded to the longest row."""
        if self.least is None or min(depths) < max(1, self.least):
            return False
        costs = [self._cost(row) for row in rows]
        longest = max(row.n_tokens for row in rows)
        padding = sum(longest - row.n_tokens for row in rows)
        return (
            padding <= self.shape.gain * (len(depths) - 1)
            and len(rows) * max(costs) + sum(depths) <= budget.tokens
            and budget.take(costs, 0) == len(rows)
        )

    def _score_rows(
        self, work: _Work, rows: Sequence[PackedRow]
    ) -> Iterator[ScoredBatch]:
        todo = [rows]
        while todo:
            for batch in self._batches(work, todo.pop()):
                if not isinstance(batch.result, InvalidRequestError):
                    found = batch.result
                    finite: dict[int, SpanResult] = {
                        i: one for i, one in found.items() if one.finite
                    }
                    yield ScoredBatch(finite, batch.elapsed_s)
                    rest = found.keys() - finite.keys()
                    yield from self._alone(sorted(rest), work.spans, BatchBudget(1))
                    continue
                self.forget()
                (row,) = batch.items
                parts = self._cut(work, PrefixGroup(row.depth, row.members))
                if len(parts) > 1:
                    todo.append(parts)
                else:
                    for member in row.members.tolist():
                        alone = work.trie.spans[member]
                        yield from self._alone(alone, work.spans, work.budget)

    def _cut(self, work: _Work, group: PrefixGroup) -> list[PackedRow]:
        rows = pack(work.trie, group, min(self.shape.width, work.budget.tokens))
        return sorted(rows, key=lambda row: -row.n_tokens)

    def _batches(
        self, work: _Work, rows: Sequence[PackedRow]
    ) -> Iterator[Batch[PackedRow, dict[int, SpanScore]]]:
        """Batches of rows; rows without a mask are batched separately, since their
        kernel is faster and needs less memory. Rows after several prefixes are one
        batch."""
        parts = [rows]
        if np.array_equal(work.prefix_of(rows[0]), work.prefix_of(rows[-1])):
            alone = [row for row in rows if len(row.members) == 1]
            parts = [alone, [row for row in rows if len(row.members) > 1]]
        for some in parts:
            masked = any(row.depth or len(row.members) > 1 for row in some)
            costs = [self._cost(row) if masked else row.n_tokens for row in some]
            yield from in_batches(some, costs, partial(self._run, work), work.budget)

    def _cost(self, row: PackedRow) -> int:
        return self.estimate.tokens(row.n_tokens, row.depth)

    def _alone(
        self, numbers: Iterable[int], spans: Sequence[ScoredSpan], budget: BatchBudget
    ) -> Iterator[ScoredBatch]:
        for i in numbers:
            self.n_alone += 1
            for done in self.plain.score([spans[i]], budget):
                yield ScoredBatch({i: done.scored[0]}, done.elapsed_s)

    def _run(self, work: _Work, rows: Sequence[PackedRow]) -> dict[int, SpanScore]:
        """Score a batch of rows; those after the same prefix are neighbors."""
        layouts = [lay_out(work.trie, work.spans, row) for row in rows]
        prefixes, counts = [work.prefix_of(rows[0])], [0]
        for row in rows:
            prefix = work.prefix_of(row)
            if not np.array_equal(prefix, prefixes[-1]):
                prefixes.append(prefix)
                counts.append(0)
            counts[-1] += 1
        depth = min(map(len, prefixes))
        sheet = self._sheet(layouts, depth, tuple(counts), self.shape.multiple)
        width = sheet.ids.shape[1]
        spots = [
            SpanTargets(spot.span, spot.places + r * width, spot.targets)
            for r, layout in enumerate(layouts)
            for spot in layout.spots
        ]

        def run(places: Tensor) -> Iterable[LogitsChunk]:
            part = partial(self._part, work.budget)
            pasts = [self._prefixes.over(prefix, part) for prefix in prefixes]
            return self.forward(sheet.ids, places, self.see(sheet, pasts))

        with torch.inference_mode():
            scored = sum_logprobs(batch_targets(spots), run)
        self._counters.add(sheet.ids.numel(), sum(row.n_tokens for row in rows))
        return scored

    def _sheet(
        self,
        layouts: Sequence[RowLayout],
        depth: int,
        counts: tuple[int, ...],
        multiple: int,
    ) -> RowBatch:
        """Pad rows; their keys, with the prefix, are a multiple of ``multiple``."""
        lengths = np.array([len(layout.ids) for layout in layouts], dtype=np.int64)
        width = int(lengths.max())
        width += -(width + depth) % multiple
        table = np.zeros((3, len(layouts), width), dtype=np.int64)
        table[2] = np.arange(1, width + 1)
        for r, layout in enumerate(layouts):
            n = len(layout.ids)
            table[:, r, :n] = layout.ids, layout.positions, layout.ends
        ids, positions, ends = torch.from_numpy(table).to(self.forward.device)
        placed = torch.from_numpy(lengths).to(self.forward.device)
        branched = any(layout.ends.min() < len(layout.ends) for layout in layouts)
        n_positions = int(table[1].max()) + 1
        return RowBatch(
            ids, positions, ends, placed, depth, counts, branched, n_positions
        )

    def _part(self, budget: BatchBudget, n_before: int) -> int:
        """Prefill chunk after ``n_before`` tokens; with its mask, within the budget."""
        n = budget.tokens
        while n > SMALLEST_PART and self.estimate.tokens(n, n_before) > budget.tokens:
            n //= 2
        return max(n, SMALLEST_PART)

    def _read(self, ids: Ids, n_before: int, past: Any) -> None:
        """Compute a chunk of a prefix as a batch of one row."""
        n = len(ids)
        positions = np.arange(n_before, n_before + n, dtype=np.int32)
        row = RowLayout(ids.astype(np.int32), positions, np.full(n, n, np.int32), [])
        one = self._sheet([row], n_before, (1,), 1)
        self.forward.remember(one.ids, self.see(one, [past]))
        self._counters.add(n, n)
