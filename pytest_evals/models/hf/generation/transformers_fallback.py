"""Generation with transformers' own ``generate``, for beam search and options that only
it supports.

One sequence at a time, called as lm-eval 0.4.13 does with a batch size of 1
(``HFLM._model_generate``), so that it stops where lm-eval stops: a beam search ends for
all beams as soon as the first beam contains a stop string.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Collection, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import StoppingCriteria, StoppingCriteriaList

from pytest_evals.models.engine.device_memory import or_none
from pytest_evals.models.hf.generation.sampling import SamplingParams
from pytest_evals.models.hf.generation.scheduler import SequenceState
from pytest_evals.models.tokens.request_encoder import RequestEncoder


class TransformersGenerator:
    """Generates with ``model.generate``."""

    def __init__(
        self, model: Any, encoder: RequestEncoder, ends: Collection[int]
    ) -> None:
        """``ends`` are the ids of end-of-sequence tokens."""
        self._model = model
        self._encoder = encoder
        self._ends = ends

    def written(self, row: SequenceState, params: SamplingParams) -> SequenceState:
        """The sequence with its completion, or with the error."""
        begun = time.perf_counter()
        found = None
        while found is None and not row.lost and not row.refusal:
            try:
                found = or_none(lambda: self._generate(row, params))
            except _REFUSALS as error:
                text = " ".join(str(error).split())
                row.refusal = f"transformers refuses {', '.join(params.slow)}: {text}"
            row.n_failures = 0 if found else row.n_failures + 1
        row.tokens = found or []
        row.elapsed_s = time.perf_counter() - begun
        return row

    def _generate(self, row: SequenceState, params: SamplingParams) -> list[int]:
        """New tokens up to the first end-of-sequence token."""
        device = self._model.device
        ids = torch.as_tensor(row.prompt, dtype=torch.long, device=device)[None]
        settings = params.settings
        on_gpu = [device] if device.type == "cuda" else []
        with torch.random.fork_rng(on_gpu), warnings.catch_warnings():
            # transformers warns of lengths that it then does its best with.
            warnings.simplefilter("default")
            torch.manual_seed(row.draws.getrandbits(63))
            found = self._model.generate(
                input_ids=ids,
                attention_mask=torch.ones_like(ids),
                stopping_criteria=self._criteria(row, ids.shape[1]),
                pad_token_id=min(self._ends, default=0),
                return_dict_in_generate=False,
                max_new_tokens=row.max_tokens,
                **settings,
            )
        tokens: list[int] = found[0, ids.shape[1] :].tolist()
        named = settings.get("eos_token_id")
        ends = self._ends if named is None else {self._encoder.end_id, *_ids(named)}
        end = next((i for i, t in enumerate(tokens) if t in ends), len(tokens))
        return tokens[: end + 1]

    def _criteria(self, row: SequenceState, n_prompt: int) -> StoppingCriteriaList:
        """One criterion for each stop string; lm-eval adds the end-of-sequence
        string."""
        strings = [
            text for text in (*row.stops.strings, self._encoder.end_text) if text
        ]
        return StoppingCriteriaList(
            _FirstRowStops(self._encoder, string, n_prompt) for string in strings
        )


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
        """(B,) whether each of the rows ends, (B, T) ``input_ids``."""
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
