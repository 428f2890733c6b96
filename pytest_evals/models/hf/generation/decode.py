"""One decoding step of a causal model: from the sequences so far to the next logits.

``CachedDecoder`` computes each token once and keeps its keys and values; shared
prefixes of prompts are computed once. ``ModelCacheDecoder`` is for models with other
layers than those. ``UncachedDecoder`` recomputes everything at each step, for models
whose cache is not supported and as the reference in tests.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from pytest_evals.models.engine.device_memory import retried
from pytest_evals.models.hf.forward import (
    Forward,
    TokenCounts,
    has_rounding,
    relative_error,
)
from pytest_evals.models.hf.generation.kv_cache import KVCache
from pytest_evals.models.hf.generation.model_cache_decoder import ModelCacheDecoder
from pytest_evals.models.hf.generation.prefill import Prefiller, SharedPrefix
from pytest_evals.models.tokens.encoder import Ids


class Decoder(Protocol):
    """A running batch of sequences. A call that runs out of memory changes nothing;
    after a failure of ``keep`` or ``trim`` call ``clear``."""

    def join(
        self,
        prompts: Sequence[Ids],
        branch: SharedPrefix | None,
        keeps_last: bool,
        most: int = 0,
    ) -> Tensor:
        """Prefill prompts and append them to the batch.

        Args:
            prompts: (T,) ids each; equal ones are adjacent.
            keeps_last: Whether the next rows to come have the last of these prompts.
            most: Tokens of a prompt that is read alone, or of a beginning, which may be
                read at a time; 0 for all.

        Returns:
            (B, V) float32 logits of the new rows' next tokens.
        """

    def step(self, tokens: Tensor) -> Tensor:
        """Append (B,) int64 tokens, one a row; (B, V) float32 logits of the next."""

    def keep(self, order: Sequence[int]) -> None:
        """Select rows: the new row ``i`` is the old row ``order[i]``."""

    def trim(self) -> None:
        """Free the memory that the remaining rows do not need."""

    def clear(self) -> None:
        """Remove all rows and free their memory."""

    @property
    def held(self) -> tuple[int, int]:
        """Bytes per token of a row, 0 if unknown, and bytes of all rows."""


class CachedDecoder:
    """Decoder with a KV cache."""

    def __init__(self, forward: Forward, counters: TokenCounts) -> None:
        self._forward = forward
        self._counters = counters
        self._reader = Prefiller(forward, counters)
        self._shelf = KVCache()

    @torch.inference_mode()
    def join(
        self,
        prompts: Sequence[Ids],
        branch: SharedPrefix | None,
        keeps_last: bool,
        most: int = 0,
    ) -> Tensor:
        """Prefill each distinct prompt once."""
        read = self._reader.prompts(prompts, branch, keeps_last, most)
        before = len(self._shelf.lengths)
        try:
            for part in read:
                self._shelf.append(part.states, part.source, part.lengths)
        except BaseException:
            self._shelf.keep(range(before))
            raise
        return torch.cat([part.logits[part.source] for part in read])

    @torch.inference_mode()
    def step(self, tokens: Tensor) -> Tensor:
        """Process one token a row."""
        cache = self._shelf.opened()
        lengths = torch.tensor(self._shelf.lengths)
        columns = torch.arange(self._shelf.width + 1)
        mask = columns >= self._shelf.width - lengths[:, None]  # (B, T + 1)
        view = self._forward.after(cache, mask.long(), lengths[:, None])
        n = len(tokens)
        logits = self._forward.logits(tokens[:, None], torch.arange(n), view)
        self._counters.add(n, n)
        self._shelf.closed()
        return logits

    @torch.inference_mode()
    def keep(self, order: Sequence[int]) -> None:
        """Select rows; only rows that move to another place are copied."""
        self._shelf.keep(order)

    @torch.inference_mode()
    def trim(self) -> None:
        """Free spare buffers and the shared prefix."""
        self._reader.forget()
        self._shelf.trim()

    def clear(self) -> None:
        """Remove all rows."""
        self._reader.forget()
        self._shelf = KVCache()

    @property
    def held(self) -> tuple[int, int]:
        """Bytes per token of a row, 0 before the first, and of all buffers."""
        return self._shelf.bytes_per_token, self._shelf.n_bytes


@dataclass(slots=True, eq=False)
class UncachedDecoder:
    """Decoder that recomputes whole sequences at each step."""

    forward: Forward
    counters: TokenCounts
    _rows: list[list[int]] = field(default_factory=list)

    def join(
        self,
        prompts: Sequence[Ids],
        branch: SharedPrefix | None,
        keeps_last: bool,
        most: int = 0,
    ) -> Tensor:
        """Prefill each prompt separately."""
        rows = [[int(token) for token in prompt] for prompt in prompts]
        logits = self._read(rows)
        self._rows += rows
        return logits

    def step(self, tokens: Tensor) -> Tensor:
        """Recompute all rows with their new tokens."""
        grown = zip(self._rows, tokens.tolist(), strict=True)
        rows = [[*row, token] for row, token in grown]
        logits = self._read(rows)
        self._rows = rows
        return logits

    def keep(self, order: Sequence[int]) -> None:
        """Select rows."""
        self._rows = [self._rows[row] for row in order]

    def trim(self) -> None:
        """Does nothing, since there is no cache."""

    def clear(self) -> None:
        """Remove all rows."""
        self._rows = []

    @property
    def held(self) -> tuple[int, int]:
        """Always 0, since there is no cache."""
        return 0, 0

    @torch.inference_mode()
    def _read(self, rows: Sequence[Sequence[int]]) -> Tensor:
        width = max(len(row) for row in rows)
        padded = [[*row, *[0] * (width - len(row))] for row in rows]
        lasts = [i * width + len(row) - 1 for i, row in enumerate(rows)]
        logits = self.forward.logits(torch.tensor(padded), torch.tensor(lasts))
        self.counters.add(len(rows) * width, sum(map(len, rows)))
        return logits


def decoder_for(forward: Forward, counters: TokenCounts) -> Callable[[], Decoder]:
    """Factory of decoders for a model. A self-test at first use selects the first one
    whose logits match those of ``UncachedDecoder`` with shared prefixes, padding, and
    rows that join and leave."""

    @cache
    def selected() -> Callable[[Forward, TokenCounts], Decoder]:
        for kind in (CachedDecoder, ModelCacheDecoder):
            if _is_correct(kind, forward):
                return kind
        return UncachedDecoder

    return lambda: selected()(forward, counters)


def _is_correct(
    kind: Callable[[Forward, TokenCounts], Decoder], forward: Forward
) -> bool:
    unseen = TokenCounts()
    try:
        mine = retried(lambda: _trial(kind(forward, unseen), forward.model))
    # Models raise different errors for unsupported caches.
    except (
        AttributeError,
        IndexError,
        TypeError,
        ValueError,
        RuntimeError,
        NotImplementedError,
    ):
        return False
    plain = UncachedDecoder
    theirs = retried(lambda: _trial(plain(forward, unseen), forward.model))
    most = relative_error(mine, theirs)
    return most <= (0.05 if has_rounding(forward.model) else 1e-4)


def _trial(steps: Decoder, model: Any) -> Tensor:
    size = model.get_input_embeddings().weight.shape[0]
    step = max(1, size // 12)
    ids = (np.arange(1, 12) * step % size).astype(np.int32)
    twig = SharedPrefix(ids[:3])
    branch = SharedPrefix(ids[:5], twig)
    tokens = torch.tensor([1, 2, 3, 4], device=model.device) % size
    seen = [
        steps.join([ids[:9], ids[:6]], branch, keeps_last=True, most=2),
        steps.join([ids[:6], ids[:7]], branch, keeps_last=False),
        steps.step(tokens),
    ]
    steps.keep([0, 3])
    seen.append(steps.step(tokens[:2]))
    seen.append(steps.join([ids[:4]], twig, keeps_last=False))
    steps.keep([2, 1])
    seen.append(steps.join([ids[2:]], None, keeps_last=False, most=4))
    steps.keep([2, 1])
    seen.append(steps.join([ids[5:7], ids], None, keeps_last=False))
    seen.append(steps.step(tokens))
    return torch.cat([logits.cpu() for logits in seen])
