"""Continuous batching: sequences are admitted, decoded and removed as they finish.

Waiting sequences are admitted as memory allows. If memory runs out, running sequences
are preempted and keep their tokens, so nothing is generated twice.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from pytest_evals.models.engine.completions import StopStrings
from pytest_evals.models.engine.device_memory import SMALLEST_PART, fits, or_none
from pytest_evals.models.hf.generation.decode import Decoder
from pytest_evals.models.hf.generation.kv_cache import MemoryBudget
from pytest_evals.models.hf.generation.prefill import SharedPrefix
from pytest_evals.models.hf.generation.sampling import (
    SamplingParams,
    TokenHistory,
    pick,
    top_of,
)
from pytest_evals.models.tokens.encoder import Ids
from pytest_evals.models.tokens.request_encoder import RequestEncoder

ADMISSION_SHARE = 8
"""Admit waiting sequences once they make up 1/8 of the running batch, or all that wait:
a prefill delays all running sequences."""
MAX_ATTEMPTS = 2  # Failures after which a sequence that runs alone is abandoned


@dataclass(slots=True, eq=False, kw_only=True)
class SequenceState:
    """A sequence during generation."""

    number: int  # Which of the texts it is
    prompt: Ids  # (T,) ids
    max_tokens: int  # Most new tokens
    stops: StopStrings
    draws: Random
    branch: SharedPrefix | None = None  # The shared prefix of its prompt
    whole: bool = False  # Whether its prompt must be prefilled in one pass
    turn: int = 0  # The length at which all of it is recomputed, 0 for none
    tokens: list[int] = field(default_factory=list)  # Generated tokens
    tops: list[list[tuple[int, float]]] = field(default_factory=list)
    """Ids and log-probabilities of the top tokens at each position."""
    ended: bool = False  # Whether it has finished
    finite: bool = True  # Whether all logits were finite
    elapsed_s: float = 0.0
    n_failures: int = 0  # Consecutive out-of-memory errors when it ran alone
    refusal: str = ""  # The error, empty for none
    _point: float = -1.0

    def point(self) -> float:
        """The random draw of the next token; constant until the token is appended."""
        if self._point < 0:
            self._point = self.draws.random()
        return self._point

    def grow(self, token: int) -> None:
        """Append a token."""
        self.tokens.append(token)
        self._point = -1.0

    @property
    def length(self) -> int:
        """Tokens of the prompt and the completion so far."""
        return len(self.prompt) + len(self.tokens)

    @property
    def lost(self) -> bool:
        """Whether the sequence does not fit into memory even alone."""
        return self.n_failures >= MAX_ATTEMPTS

    def expected(self, growth: int) -> int:
        """Length after ``growth`` further tokens, limited by ``max_tokens``."""
        return self.length + min(growth, self.max_tokens - len(self.tokens))

    def ids(self) -> Ids:
        """The ids to prefill on admission."""
        written = np.asarray(self.tokens, dtype=self.prompt.dtype)
        return np.concatenate([self.prompt, written]) if self.tokens else self.prompt


class NextTokens(NamedTuple):
    """Next token of each row, whether its logits were finite, and the top tokens."""

    tokens: list[int]
    finite: list[bool]
    tops: list[list[tuple[int, float]]]


def append_tokens(
    rows: Iterable[SequenceState],
    chosen: NextTokens,
    ends: Collection[int],
    encoder: RequestEncoder,
) -> None:
    """Append each sequence's next token and find those that end, as at ``ends``."""
    watched = []
    for row, token, finite, top in zip(rows, *chosen, strict=True):
        row.grow(token)
        row.tops.append(top)
        row.finite = finite
        full = len(row.tokens) >= row.max_tokens
        row.ended = full or token in ends or not finite
        tail = () if row.ended else row.stops.tail(row.tokens)
        if tail:
            watched.append((row, tail))
    if watched:
        texts = encoder.decode_all([tail for _, tail in watched])
        for (row, _), text in zip(watched, texts, strict=True):
            row.ended = row.stops.in_text(text)


@dataclass(eq=False)
class Scheduler:
    """Schedules sequences with the same sampling parameters."""

    steps: Decoder
    budget: MemoryBudget
    params: SamplingParams
    encoder: RequestEncoder
    ends: Collection[int]  # Ids of end-of-sequence tokens
    _waiting: deque[SequenceState] = field(default_factory=deque)
    _rows: list[SequenceState] = field(default_factory=list)
    _n_full: int = 0  # Batch size at which no further sequence fits

    def __post_init__(self) -> None:
        self._history = TokenHistory(self.params)

    def run(self, rows: Iterable[SequenceState]) -> Iterator[Sequence[SequenceState]]:
        """Generate all sequences; yields those that finished or failed together."""
        self._waiting.extend(rows)
        while self._waiting or self._rows:
            yield from self._enter()
            yield self._leave()
            if self._rows:
                self._step()
                yield self._leave()

    # Entering

    def _enter(self) -> Iterator[Sequence[SequenceState]]:
        """Admit sequences as memory allows; yields those that failed."""
        n = self._n_entering()
        self._sort(n)
        while n > 0:
            group = self._group(n)
            if self._read(group):
                n -= len(group)
            elif len(group) > 1:
                n = len(group) // 2
            elif self._rows:
                return
            elif group[0].lost:
                yield [self._waiting.popleft()]
                n -= 1

    def _n_entering(self) -> int:
        if not self._waiting:
            return 0
        budget, n = self.budget, len(self._rows)
        if n and n == self._n_full:
            return 0
        budget.look(*self.steps.held)
        width = max((row.expected(budget.growth) for row in self._rows), default=0)
        found = 0
        for row in self._waiting:
            width = max(width, row.expected(budget.growth))
            if not budget.fits(n + found + 1, width):
                break
            found += 1
        few = found * ADMISSION_SHARE < n and found < len(self._waiting)
        self._n_full = n if few else 0
        return 0 if few else found

    def _sort(self, n: int) -> None:
        """Sort the next ``n`` by length within their prefix, to reduce padding."""
        entering = [self._waiting.popleft() for _ in range(n)]
        number: dict[SharedPrefix | None, int] = {}
        for row in entering:
            number.setdefault(row.branch, len(number))
        entering.sort(key=lambda row: (number[row.branch], -row.length))
        self._waiting.extendleft(reversed(entering))

    def _group(self, most: int) -> list[SequenceState]:
        """The next sequences to prefill together: they have the same shared prefix, and
        their distinct prompts fit the prefill budget without too much padding."""
        found: list[SequenceState] = []
        width = n_distinct = n_useful = 0
        for row in self._waiting:
            if found and (len(found) == most or row.branch is not found[0].branch):
                break
            length = row.length - (len(row.branch.ids) if row.branch else 0)
            if not found or not _same(row, found[-1]):
                width = max(width, length)
                n_distinct += 1
                n_useful += length
            n_read = n_distinct * width
            too_much = n_read > self.budget.read
            if found and (too_much or n_read - n_useful > self.budget.pass_cost):
                break
            found.append(row)
        return found

    def _read(self, group: Sequence[SequenceState]) -> bool:
        """Prefill sequences and select their next tokens; ``False`` without memory."""
        begun = time.perf_counter()
        ids = [row.ids() for row in group]
        after = self._waiting[len(group)] if len(group) < len(self._waiting) else None
        keeps_last = after is not None and _same(after, group[-1])
        most = 0 if group[0].whole else self.budget.part
        logits = or_none(
            lambda: self.steps.join(ids, group[0].branch, keeps_last, most)
        )
        if logits is None:
            self._fail_to_read(group)
            return False
        first = len(self._rows)
        self._history.join([one.tolist() for one in ids])
        chosen = or_none(lambda: self._chosen(logits, group, first))
        if chosen is None:
            self._keep(range(first))
            self._fail_to_read(group)
            return False
        for row in group:
            self._waiting.popleft()
            row.n_failures = 0
        self._rows += group
        self._grow(group, chosen, first, begun)
        return True

    def _fail_to_read(self, group: Sequence[SequenceState]) -> None:
        width = max(row.length for row in [*self._rows, *group])
        if len(group) > 1:
            self.budget.lower_read(len(group) * width)
        elif self._rows:
            self.budget.lower(2 * len(self._rows) * width)
        else:
            # Without what is kept for others it may fit, or in smaller parts.
            self.steps.clear()
            group[0].branch = None
            part = min(width, self.budget.part)
            if group[0].whole or part <= SMALLEST_PART:
                group[0].n_failures += 1
            else:
                self.budget.lower_read(part)

    # Going on

    def _step(self) -> None:
        """Decode one token a sequence, or preempt sequences."""
        if any(row.turn == row.length for row in self._rows):
            self._send_all_back()
            return
        self._make_room()
        begun = time.perf_counter()
        tokens = torch.tensor([row.tokens[-1] for row in self._rows])
        logits = or_none(lambda: self.steps.step(tokens))
        if logits is None:
            self._fail_to_step()
            return
        chosen = or_none(lambda: self._chosen(logits, self._rows, 0))
        if chosen is None:
            self.budget.lower(self._n_held())
            self._send_all_back()
            return
        self.budget.fitted()
        self._grow(self._rows, chosen, 0, begun)

    def _make_room(self) -> None:
        n = len(self._rows)
        width = max(row.length for row in self._rows)
        while self.budget.overflows(n, width):
            n -= 1
            width = max(row.length for row in self._rows[:n])
        if n < len(self._rows):
            self.budget.expect_longer()
            self._send_back(n)

    def _fail_to_step(self) -> None:
        n = len(self._rows)
        if n == 1:
            # Reading it anew gives its next token too, so that it goes on.
            self.budget.lower(2 * self._n_held())
            self._send_all_back()
            return
        self.budget.lower(self._n_held())
        self._send_back(n // 2)
        if not fits(self.steps.trim):
            self._send_all_back()

    def _n_held(self) -> int:
        return len(self._rows) * max(row.length for row in self._rows)

    def _chosen(
        self, logits: Tensor, rows: Sequence[SequenceState], first: int
    ) -> NextTokens:
        points = [row.point() for row in rows] if self.params.temperature else []
        with torch.inference_mode():
            finite = ~logits.isnan().any(dim=-1)
            # Rows with NaN end here; zeros keep the choice defined meanwhile.
            logits = torch.where(finite[:, None], logits, 0.0)
            tops = top_of(logits, self.params.top_logprobs)
            logits = self._history.change(logits, first)
            tokens = pick(logits, self.params, points)
            return NextTokens(tokens.tolist(), finite.tolist(), tops)

    def _grow(
        self,
        rows: Sequence[SequenceState],
        chosen: NextTokens,
        first: int,
        begun: float,
    ) -> None:
        with torch.inference_mode():
            self._history.add(chosen.tokens, first)
        append_tokens(rows, chosen, self.ends, self.encoder)
        part = (time.perf_counter() - begun) / len(rows)
        for row in rows:
            row.elapsed_s += part

    # Leaving

    def _leave(self) -> Sequence[SequenceState]:
        """Remove and return finished sequences; others move to their rows."""
        ended = [row for row in self._rows if row.ended]
        if not ended:
            return ()
        n = len(self._rows) - len(ended)
        stay = [i for i, row in enumerate(self._rows) if not row.ended]
        late = iter([i for i in stay if i >= n])
        order = [next(late) if self._rows[i].ended else i for i in range(n)]
        self._keep(order)
        return ended

    def _send_back(self, n: int) -> None:
        """Preempt all but the first ``n`` sequences; they will be the next ones."""
        self._waiting.extendleft(reversed(self._rows[n:]))
        self._keep(range(n))

    def _send_all_back(self) -> None:
        self.steps.clear()
        self._waiting.extendleft(reversed(self._rows))
        self._rows = []
        self._history.keep(())

    def _keep(self, order: Sequence[int]) -> None:
        self._rows = [self._rows[i] for i in order]
        with torch.inference_mode():
            self._history.keep(order)
        if not fits(lambda: self.steps.keep(order)):
            self._send_all_back()


def _same(one: SequenceState, other: SequenceState) -> bool:
    if one.tokens or other.tokens:
        return False
    return np.array_equal(one.prompt, other.prompt)
