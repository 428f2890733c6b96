"""The fast paths to log-probabilities: prefixes are read once and kept, and what goes
on from them runs in batches of rows.

What a row may be is the model's affair: several sequences packed under a mask of its
own kind, or one sequence that the model masks itself. A line that comes back without a
number, or whose row does not fit into memory, is scored again by the plain path alone:
in a packed row one sequence's NaN is everybody's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pytest_evals.models.hf.batches import (
    SMALLEST_PART,
    Batch,
    Budget,
    in_batches,
)
from pytest_evals.models.hf.forward import Chunk, Forward, View
from pytest_evals.models.hf.memory_estimate import Footprint
from pytest_evals.models.hf.scoring.logprobs import Spot, tally, wanted_of
from pytest_evals.models.hf.scoring.packing import Layout, Row, cut, lay_out
from pytest_evals.models.hf.scoring.padded_strategy import Plain
from pytest_evals.models.hf.scoring.prefix_cache import Prefixes
from pytest_evals.models.hf.scoring.prefix_groups import Group, Shape, groups_of
from pytest_evals.models.hf.scoring.scored_spans import Done, Line, Scored
from pytest_evals.models.hf.scoring.trie import Trie, trie_of
from pytest_evals.models.hf.token_counts import Counters
from pytest_evals.models.hf.tokenization.encoder import Ids
from pytest_evals.models.hf.tokenization.request_encoder import Unusable


@dataclass(frozen=True, slots=True, eq=False)
class Sheet:
    """The rows of a batch, right-padded; padding sees itself.

    Args:
        ids: (B, T) int64.
        positions: (B, T) int64.
        ends: (B, T) int64, place after each token's last descendant.
        lengths: (B,) int64, tokens of each row.
        depth: Tokens of the prefix before each row.
        branched: Whether there is a row with several sequences.
    """

    ids: Tensor
    positions: Tensor
    ends: Tensor
    lengths: Tensor
    depth: int
    branched: bool


See = Callable[[Sheet, Any], View]
"""Rows, on the device, and a cache over their prefix → what their tokens see."""


class Grouped:
    """Groups of sequences under kept prefixes."""

    def __init__(
        self, name: str, see: See, shape: Shape, footprint: Footprint, plain: Plain
    ) -> None:
        """``see`` says what rows may be; ``plain`` scores what does not go well."""
        self.name = name
        self._see = see
        self._shape = shape
        self._footprint = footprint
        self._plain = plain
        self.forward: Forward = plain.forward
        self._counters: Counters = plain.counters
        self._prefixes = Prefixes(self._read)
        self.n_alone = 0
        """Lines that the plain path had to score."""

    def score(self, lines: Sequence[Line], budget: Budget) -> Iterator[Done]:
        """All lines, as batches finish."""
        trie = trie_of(lines)
        for group in groups_of(trie, self._shape):
            yield from self._score_group(trie, lines, group, budget)

    def forget(self) -> None:
        """Give the memory of the kept prefix back."""
        self._prefixes.forget()

    def _score_group(
        self, trie: Trie, lines: Sequence[Line], group: Group, budget: Budget
    ) -> Iterator[Done]:
        todo = [group]
        while todo:
            rows = self._cut(trie, todo.pop(), budget)
            for batch in self._batches(trie, lines, rows, budget):
                if not isinstance(batch.result, Unusable):
                    yield from self._checked(batch.result, batch.elapsed_s, lines)
                    continue
                self.forget()
                (row,) = batch.items
                rest = Group(row.depth, row.members)
                if len(self._cut(trie, rest, budget)) > 1:
                    todo.append(rest)
                else:
                    for member in row.members.tolist():
                        yield from self._alone(trie.lines[member], lines, budget)

    def _cut(self, trie: Trie, group: Group, budget: Budget) -> list[Row]:
        rows = cut(trie, group, min(self._shape.width, budget.tokens))
        return sorted(rows, key=lambda row: -row.n_tokens)

    def _batches(
        self, trie: Trie, lines: Sequence[Line], rows: Sequence[Row], budget: Budget
    ) -> Iterator[Batch[Row, dict[int, Scored]]]:
        """Rows that need no mask, and so a faster kernel and less memory, keep to
        themselves."""
        for branched in (False, True):
            some = [row for row in rows if (len(row.members) > 1) is branched]
            masked = branched or any(row.depth for row in some)
            yield from in_batches(
                some,
                [self._cost(row) if masked else row.n_tokens for row in some],
                lambda batch: self._run(trie, lines, batch, budget),
                budget,
            )

    def _cost(self, row: Row) -> int:
        return self._footprint.tokens(row.n_tokens, row.depth)

    def _checked(
        self, scored: dict[int, Scored], elapsed_s: float, lines: Sequence[Line]
    ) -> Iterator[Done]:
        yield Done({i: one for i, one in scored.items() if one.sound}, elapsed_s)
        unsound = [i for i, one in scored.items() if not one.sound]
        yield from self._alone(unsound, lines, Budget(1))

    def _alone(
        self, numbers: Iterable[int], lines: Sequence[Line], budget: Budget
    ) -> Iterator[Done]:
        for i in numbers:
            self.n_alone += 1
            for done in self._plain.score([lines[i]], budget):
                yield Done({i: done.scored[0]}, done.elapsed_s)

    def _run(
        self, trie: Trie, lines: Sequence[Line], rows: Sequence[Row], budget: Budget
    ) -> dict[int, Scored]:
        """Score a batch of rows of one group."""
        layouts = [lay_out(trie, lines, row) for row in rows]
        depth = rows[0].depth
        sheet = self._sheet(layouts, depth, self._shape.multiple)
        width = sheet.ids.shape[1]
        spots = [
            Spot(spot.line, spot.places + r * width, spot.targets)
            for r, layout in enumerate(layouts)
            for spot in layout.spots
        ]
        prefix = trie.sequences[int(rows[0].members[0])][:depth]

        def run(places: Tensor) -> Iterable[Chunk]:
            past = self._prefixes.over(prefix, partial(self._part, budget))
            view = self._see(sheet, past)
            return self.forward(sheet.ids, places, view)

        with torch.inference_mode():
            scored = tally(wanted_of(spots), run)
        self._counters.add(sheet.ids.numel(), sum(row.n_tokens for row in rows))
        return scored

    def _sheet(self, layouts: Sequence[Layout], depth: int, multiple: int) -> Sheet:
        """Rows whose keys, with those of the prefix, are a multiple in number."""
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
        return Sheet(ids, positions, ends, placed, depth, branched)

    def _part(self, budget: Budget, n_before: int) -> int:
        """Tokens of a prefix that are read at a time, after so many: with their mask,
        no more than a batch may cost."""
        n = budget.tokens
        while n > SMALLEST_PART and self._footprint.tokens(n, n_before) > budget.tokens:
            n //= 2
        return max(n, SMALLEST_PART)

    def _read(self, ids: Ids, n_before: int, past: Any) -> None:
        """Read a part of a prefix, as a batch of one row."""
        n = len(ids)
        row = Layout(
            ids.astype(np.int32),
            np.arange(n_before, n_before + n, dtype=np.int32),
            np.full(n, n, dtype=np.int32),
            [],
        )
        one = self._sheet([row], n_before, 1)
        self.forward.remember(one.ids, self._see(one, past))
        self._counters.add(n, n)
