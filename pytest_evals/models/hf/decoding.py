"""Steps of a causal model that writes: from the rows so far to the next logits.

``CachedSteps`` reads each token once, over left-padded rows, and lets finished rows go.
``PlainSteps`` reads everything again at every step; it is for models whose memory is no
cache of keys and values, and the oracle of the other.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from pytest_evals.models.hf.forward import Forward
from pytest_evals.models.hf.tokens import Ids

__all__ = ["CachedSteps", "PlainSteps", "Steps", "steps_for"]


class Steps(Protocol):
    """A batch of rows that grow."""

    def first(self) -> Tensor:
        """(B, V) float32 logits of each row's next token."""
        ...

    def next(self, tokens: Tensor, keep: Tensor) -> Tensor:
        """Logits after one more token.

        Args:
            tokens: (K,) int64, the token of each row that stays.
            keep: (K,) int64, ascending positions of these rows; the others are gone.

        Returns:
            (K, V) float32.
        """
        ...


class CachedSteps:
    """Rows with their keys and values."""

    def __init__(self, model: Any, prompts: Sequence[Ids]) -> None:
        """``prompts`` are the rows, at least one token each."""
        self._model = model
        self._cache: Any = None
        width = max(len(prompt) for prompt in prompts)
        ids = torch.zeros((len(prompts), width), dtype=torch.long)
        mask = torch.zeros_like(ids)
        for row, prompt in enumerate(prompts):
            ids[row, width - len(prompt) :] = torch.as_tensor(prompt, dtype=torch.long)
            mask[row, width - len(prompt) :] = 1
        self._ids = ids.to(model.device)
        self._mask = mask.to(model.device)  # (B, T)
        known = inspect.signature(model.forward).parameters
        self._takes_positions = "position_ids" in known
        self._last_only = {"logits_to_keep": 1} if "logits_to_keep" in known else {}

    def first(self) -> Tensor:
        """Read the prompts."""
        positions = (self._mask.cumsum(dim=1) - 1).clamp(min=0)
        return self._read(self._ids, positions)

    def next(self, tokens: Tensor, keep: Tensor) -> Tensor:
        """Read one token a row."""
        if len(keep) < len(self._mask):
            keep = keep.to(self._mask.device)
            self._cache.batch_select_indices(keep)
            self._mask = self._mask[keep]
        ones = self._mask.new_ones((len(self._mask), 1))
        self._mask = torch.cat([self._mask, ones], dim=1)
        positions = self._mask.sum(dim=1, keepdim=True) - 1
        return self._read(tokens[:, None], positions)

    def _read(self, ids: Tensor, positions: Tensor) -> Tensor:
        chosen = {"position_ids": positions} if self._takes_positions else {}
        out = self._model(
            input_ids=ids,
            attention_mask=self._mask,
            past_key_values=self._cache,
            use_cache=True,
            **chosen,
            **self._last_only,
        )
        self._cache = out.past_key_values
        logits: Tensor = out.logits[:, -1].float()
        return logits


class PlainSteps:
    """Rows that are read whole at each step."""

    def __init__(self, forward: Forward, prompts: Sequence[Ids]) -> None:
        """``prompts`` are the rows, at least one token each."""
        self._forward = forward
        self._rows = [[int(token) for token in prompt] for prompt in prompts]

    def first(self) -> Tensor:
        """Read the prompts."""
        width = max(len(row) for row in self._rows)
        padded = [row + [0] * (width - len(row)) for row in self._rows]
        lasts = [i * width + len(row) - 1 for i, row in enumerate(self._rows)]
        chunks = self._forward(torch.tensor(padded), torch.tensor(lasts))
        return torch.cat([logits for _, logits in chunks])

    def next(self, tokens: Tensor, keep: Tensor) -> Tensor:
        """Read all rows that stay, each with its new token."""
        grown = zip(keep.tolist(), tokens.tolist(), strict=True)
        self._rows = [[*self._rows[row], token] for row, token in grown]
        return self.first()


def steps_for(model: Any, forward: Forward) -> Callable[[Sequence[Ids]], Steps]:
    """What steps this model takes: cached ones if they give the logits that plain ones
    give, with padding and with a row that leaves; else plain ones."""

    def cached(prompts: Sequence[Ids]) -> Steps:
        return CachedSteps(model, prompts)

    def plain(prompts: Sequence[Ids]) -> Steps:
        return PlainSteps(forward, prompts)

    with torch.inference_mode():
        try:
            mine = _trial(cached(_trial_rows(model)), model)
        except (
            AttributeError,
            TypeError,
            ValueError,
            RuntimeError,
            NotImplementedError,
        ):
            return plain
        theirs = _trial(plain(_trial_rows(model)), model)
    rough = model.dtype in (torch.float16, torch.bfloat16)
    most = float((mine - theirs).abs().max() / theirs.abs().max().clamp(min=1e-6))
    return cached if most <= (0.05 if rough else 1e-4) else plain


def _trial(steps: Steps, model: Any) -> Tensor:
    """Logits of all rows, and of the two that stay after the middle one has gone."""
    tokens = torch.tensor([1, 2], device=model.device)
    first = steps.first()
    second = steps.next(tokens, torch.tensor([0, 2]))
    third = steps.next(tokens, torch.tensor([0, 1]))
    return torch.cat([first, second, third])


def _trial_rows(model: Any) -> list[Any]:
    size = model.get_input_embeddings().weight.shape[0]
    step = max(1, size // 8)
    return [torch.arange(1, n + 1).mul(step).remainder(size).numpy() for n in (6, 4, 2)]
