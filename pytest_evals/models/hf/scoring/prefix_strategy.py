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
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pytest_evals.models.engine.batches import (
    SMALLEST_PART,
    Batch,
    BatchBudget,
    in_batches,
)
from pytest_evals.models.engine.scorer import ScoredBatch, SpanScore
from pytest_evals.models.engine.trie import Trie, trie_of
from pytest_evals.models.hf.forward import (
    AttentionView,
    Forward,
    LogitsChunk,
    MemoryEstimate,
    TokenCounts,
)
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
from pytest_evals.models.tokens.spans import ScoredSpan

ViewBuilder = Callable[[RowBatch, Sequence[Any]], AttentionView]
"""Function from rows on the device and the caches of their prefixes to their attention
view."""


class PrefixStrategy:
    """Scores groups of sequences with a cached prefix."""

    def __init__(
        self,
        name: str,
        see: ViewBuilder,
        shape: RowShape,
        estimate: MemoryEstimate,
        plain: PaddedStrategy,
        least: int | None = None,
    ) -> None:
        """Score with a view and a shape. ``least``: tokens of a prefix from which a
        batch may contain rows after several prefixes; ``None`` for never."""
        self.name = name
        self._see = see
        self._shape = shape
        self._estimate = estimate
        self._plain = plain
        self._least = least
        self.forward: Forward = plain.forward
        self._counters: TokenCounts = plain.counters
        self._prefixes = PrefixCache(self._read)
        self.n_alone = 0  # Number of spans that the padded strategy had to score

    def score(
        self, spans: Sequence[ScoredSpan], budget: BatchBudget
    ) -> Iterator[ScoredBatch]:
        """Score all spans; yields batches as they finish."""
        trie = trie_of(spans)
        groups = groups_of(trie, self._shape, self._prefixes.tokens)
        for rows in self._passes(trie, groups, budget):
            yield from self._score_rows(trie, spans, rows, budget)

    def forget(self) -> None:
        """Free the memory of the cached prefix."""
        self._prefixes.forget()

    @property
    def prefix_length(self) -> int:
        """Number of tokens of the cached prefix."""
        return len(self._prefixes.tokens)

    def _passes(
        self, trie: Trie, groups: Sequence[PrefixGroup], budget: BatchBudget
    ) -> Iterator[list[PackedRow]]:
        """The rows of each group; those of neighboring groups together if they fit into
        one batch, prefixes included."""
        rows: list[PackedRow] = []
        depths: list[int] = []
        for group in groups:
            more = self._cut(trie, group, budget)
            if rows and self._is_batch([*rows, *more], [*depths, group.depth], budget):
                rows += more
                depths.append(group.depth)
                continue
            if rows:
                yield rows
            rows, depths = more, [group.depth]
        if rows:
            yield rows

    def _is_batch(
        self, rows: Sequence[PackedRow], depths: Sequence[int], budget: BatchBudget
    ) -> bool:
        """Whether one pass over the rows of all groups is allowed, and faster than one
        for each group, although it is padded to the longest row."""
        if self._least is None or min(depths) < max(1, self._least):
            return False
        costs = [self._cost(row) for row in rows]
        longest = max(row.n_tokens for row in rows)
        padding = sum(longest - row.n_tokens for row in rows)
        return (
            padding <= self._shape.gain * (len(depths) - 1)
            and len(rows) * max(costs) + sum(depths) <= budget.tokens
            and budget.take(costs, 0) == len(rows)
        )

    def _score_rows(
        self,
        trie: Trie,
        spans: Sequence[ScoredSpan],
        rows: Sequence[PackedRow],
        budget: BatchBudget,
    ) -> Iterator[ScoredBatch]:
        todo = [rows]
        while todo:
            for batch in self._batches(trie, spans, todo.pop(), budget):
                if not isinstance(batch.result, InvalidRequestError):
                    yield from self._checked(batch.result, batch.elapsed_s, spans)
                    continue
                self.forget()
                (row,) = batch.items
                rest = self._cut(trie, PrefixGroup(row.depth, row.members), budget)
                if len(rest) > 1:
                    todo.append(rest)
                else:
                    for member in row.members.tolist():
                        yield from self._alone(trie.spans[member], spans, budget)

    def _cut(
        self, trie: Trie, group: PrefixGroup, budget: BatchBudget
    ) -> list[PackedRow]:
        rows = pack(trie, group, min(self._shape.width, budget.tokens))
        return sorted(rows, key=lambda row: -row.n_tokens)

    def _batches(
        self,
        trie: Trie,
        spans: Sequence[ScoredSpan],
        rows: Sequence[PackedRow],
        budget: BatchBudget,
    ) -> Iterator[Batch[PackedRow, dict[int, SpanScore]]]:
        """Batches of rows; rows without a mask are batched separately, since their
        kernel is faster and needs less memory. Rows after several prefixes are one
        batch."""
        parts = [rows]
        if _equal(_prefix_of(trie, rows[0]), _prefix_of(trie, rows[-1])):
            alone = [row for row in rows if len(row.members) == 1]
            parts = [alone, [row for row in rows if len(row.members) > 1]]
        for some in parts:
            masked = any(row.depth or len(row.members) > 1 for row in some)
            yield from in_batches(
                some,
                [self._cost(row) if masked else row.n_tokens for row in some],
                lambda batch: self._run(trie, spans, batch, budget),
                budget,
            )

    def _cost(self, row: PackedRow) -> int:
        return self._estimate.tokens(row.n_tokens, row.depth)

    def _checked(
        self,
        scored: dict[int, SpanScore],
        elapsed_s: float,
        spans: Sequence[ScoredSpan],
    ) -> Iterator[ScoredBatch]:
        yield ScoredBatch(
            {i: one for i, one in scored.items() if one.finite}, elapsed_s
        )
        nonfinite = [i for i, one in scored.items() if not one.finite]
        yield from self._alone(nonfinite, spans, BatchBudget(1))

    def _alone(
        self, numbers: Iterable[int], spans: Sequence[ScoredSpan], budget: BatchBudget
    ) -> Iterator[ScoredBatch]:
        for i in numbers:
            self.n_alone += 1
            for done in self._plain.score([spans[i]], budget):
                yield ScoredBatch({i: done.scored[0]}, done.elapsed_s)

    def _run(
        self,
        trie: Trie,
        spans: Sequence[ScoredSpan],
        rows: Sequence[PackedRow],
        budget: BatchBudget,
    ) -> dict[int, SpanScore]:
        """Score a batch of rows; those after the same prefix are neighbors."""
        layouts = [lay_out(trie, spans, row) for row in rows]
        prefixes, counts = [_prefix_of(trie, rows[0])], [0]
        for row in rows:
            prefix = _prefix_of(trie, row)
            if not _equal(prefix, prefixes[-1]):
                prefixes.append(prefix)
                counts.append(0)
            counts[-1] += 1
        depth = min(map(len, prefixes))
        sheet = self._sheet(layouts, depth, tuple(counts), self._shape.multiple)
        width = sheet.ids.shape[1]
        spots = [
            SpanTargets(spot.span, spot.places + r * width, spot.targets)
            for r, layout in enumerate(layouts)
            for spot in layout.spots
        ]

        def run(places: Tensor) -> Iterable[LogitsChunk]:
            part = partial(self._part, budget)
            pasts = [self._prefixes.over(prefix, part) for prefix in prefixes]
            return self.forward(sheet.ids, places, self._see(sheet, pasts))

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
        """Pad rows so that their keys, with those of the prefix, are a multiple of
        ``multiple``."""
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
        """Prefill chunk of a prefix after ``n_before`` tokens; with its mask, within
        the batch budget."""
        n = budget.tokens
        while n > SMALLEST_PART and self._estimate.tokens(n, n_before) > budget.tokens:
            n //= 2
        return max(n, SMALLEST_PART)

    def _read(self, ids: Ids, n_before: int, past: Any) -> None:
        """Compute a chunk of a prefix as a batch of one row."""
        n = len(ids)
        row = RowLayout(
            ids.astype(np.int32),
            np.arange(n_before, n_before + n, dtype=np.int32),
            np.full(n, n, dtype=np.int32),
            [],
        )
        one = self._sheet([row], n_before, (1,), 1)
        self.forward.remember(one.ids, self._see(one, [past]))
        self._counters.add(n, n)


def _prefix_of(trie: Trie, row: PackedRow) -> Ids:
    return trie.sequences[int(row.members[0])][: row.depth]


def _equal(one: Ids, other: Ids) -> bool:
    return np.array_equal(one, other)
