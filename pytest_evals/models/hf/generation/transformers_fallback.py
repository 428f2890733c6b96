"""Generation with transformers' own ``generate``: for prompts with images, for beam
search, and for options that only it supports.

The latter two run one sequence at a time, called as lm-eval 0.4.13 does with a batch
size of 1 (``HFLM._model_generate``), so that it stops where lm-eval stops: a beam
search ends for all beams as soon as the first beam contains a stop string. Otherwise
each row of a batch ends on its own.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import LogitsProcessorList, StoppingCriteria, StoppingCriteriaList

from pytest_evals.models.engine.device_memory import or_none
from pytest_evals.models.hf.generation.sampling import SamplingParams, top_of
from pytest_evals.models.hf.generation.scheduler import (
    NextTokens,
    SequenceState,
    append_tokens,
)
from pytest_evals.models.tokens.request_encoder import RequestEncoder


@dataclass(slots=True, eq=False)
class TransformersGenerator:
    """Generates with ``model.generate``."""

    model: Any
    encoder: RequestEncoder
    ends: Collection[int]  # Ids of end-of-sequence tokens

    def written(self, row: SequenceState, params: SamplingParams) -> SequenceState:
        """The sequence with its completion, or with the error."""
        begun = time.perf_counter()
        device, done = self.model.device, None
        ids = torch.as_tensor(row.prompt, dtype=torch.long, device=device)[None]
        inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        while done is None and not row.lost:
            done = or_none(lambda: self.write([row], inputs, params))
            row.n_failures = 0 if done else row.n_failures + 1
        row.elapsed_s = time.perf_counter() - begun
        return row

    def write(
        self,
        rows: Sequence[SequenceState],
        inputs: Mapping[str, Tensor],
        params: SamplingParams,
    ) -> Sequence[SequenceState]:
        """Append the new tokens of sequences; return them. ``rows``: one sequence, if a
        setting is slow. ``inputs``: arguments of the model on its device: ``input_ids``
        (B, T), padded on the left, and others."""
        n_prompt, n_top = inputs["input_ids"].shape[1], params.top_logprobs
        steps = _RowSteps(rows, self.ends, self.encoder)
        given: dict[str, Any] = {
            "stopping_criteria": StoppingCriteriaList([steps]),
            "logits_processor": LogitsProcessorList([steps.checked]),
            "output_logits": n_top > 0,
        }
        if params.slow:
            # lm-eval adds the end-of-sequence string.
            strings = (*rows[0].stops.strings, self.encoder.end_text)
            criteria = StoppingCriteriaList(
                _FirstRowStops(self.encoder, text, n_prompt) for text in strings if text
            )
            given = {"stopping_criteria": criteria}
        try:
            found = self._generate(rows, inputs, {**given, **params.settings})
        except _REFUSALS as error:
            if not params.slow:
                raise
            text = " ".join(str(error).split())
            refused = ", ".join(params.slow)
            rows[0].refusal = f"transformers refuses {refused}: {text}"
            return rows
        if params.slow:
            tokens = found.sequences[0, n_prompt:].tolist()
            rows[0].tokens = self._ended(tokens, params)
        for step, logits in enumerate(found.logits or ()):
            for row, top in zip(rows, top_of(logits, n_top), strict=True):
                if step < len(row.tokens):
                    row.tops[step] = top
        return rows

    def _generate(
        self,
        rows: Sequence[SequenceState],
        inputs: Mapping[str, Tensor],
        settings: Mapping[str, Any],
    ) -> Any:
        device = self.model.device
        on_gpu = [device] if device.type == "cuda" else []
        with torch.random.fork_rng(on_gpu), warnings.catch_warnings():
            # transformers warns of lengths that it then does its best with.
            warnings.simplefilter("default")
            torch.manual_seed(rows[0].draws.getrandbits(63))
            return self.model.generate(
                **inputs,
                pad_token_id=min(self.ends, default=0),
                return_dict_in_generate=True,
                max_new_tokens=max(row.max_tokens for row in rows),
                **settings,
            )

    def _ended(self, tokens: list[int], params: SamplingParams) -> list[int]:
        """The tokens up to the first end-of-sequence token."""
        named = params.settings.get("eos_token_id")
        ends = self.ends if named is None else {self.encoder.end_id, *_ids(named)}
        end = next((i for i, t in enumerate(tokens) if t in ends), len(tokens))
        return tokens[: end + 1]


class _RowSteps(StoppingCriteria):
    """Appends the tokens of each row and ends it on its own, as the scheduler does."""

    def __init__(
        self,
        rows: Sequence[SequenceState],
        ends: Collection[int],
        encoder: RequestEncoder,
    ) -> None:
        self._rows = rows
        self._ends = ends
        self._encoder = encoder
        self._finite: list[bool] = []

    def checked(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """(B, V) the scores of the next step; zeros for rows with NaN, which end."""
        finite = ~scores.isnan().any(dim=-1)
        self._finite = finite.tolist()
        return torch.where(finite[:, None], scores, 0.0)

    def __call__(self, input_ids: Tensor, scores: Any, **_: Any) -> Tensor:
        """(B,) whether each of the rows ends, (B, T) ``input_ids``."""
        tokens = input_ids[:, -1].tolist()
        new = zip(self._rows, tokens, self._finite, strict=True)
        running = [(row, token, ok) for row, token, ok in new if not row.ended]
        rows, tokens, finite = ([*column] for column in zip(*running, strict=True))
        chosen = NextTokens(tokens, finite, [[]] * len(rows))
        append_tokens(rows, chosen, self._ends, self._encoder)
        ended = [row.ended for row in self._rows]
        return torch.tensor(ended, device=input_ids.device)


class _FirstRowStops(StoppingCriteria):
    """Stops all rows when the first one contains a stop string (lm-eval 0.4.13,
    ``models/utils_hf.py``, ``MultiTokenEOSCriteria``)."""

    def __init__(self, encoder: RequestEncoder, string: str, n_prompt: int) -> None:
        self._encoder = encoder
        self._string = string
        self._n_prompt = n_prompt
        # Two more tokens than the string has by itself: it may be split differently.
        self._span = len(encoder.encode([string], specials=False)[string]) + 2

    def __call__(self, input_ids: Tensor, scores: Any, **_: Any) -> Tensor:
        tail = input_ids[0, self._n_prompt :][-self._span :].tolist()
        (text,) = self._encoder.decode_all([tail])
        done = self._string in text
        return torch.full((len(input_ids),), done, device=input_ids.device)


_REFUSALS = (
    AttributeError,
    ImportError,
    IndexError,
    KeyError,
    OSError,
    TypeError,
    ValueError,
)
"""Exceptions that ``generate`` raises for unsupported settings."""


def _ids(named: int | Sequence[int]) -> Sequence[int]:
    return (named,) if isinstance(named, int) else named
