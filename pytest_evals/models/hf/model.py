"""A Hugging Face model that answers requests.

Has no global state: no seed is set, and several models may be open at once.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from pytest_evals.core.request import Generate, Request
from pytest_evals.errors import ModelError
from pytest_evals.models.checkpoint import hash_file
from pytest_evals.models.engine.device_memory import (
    BatchBudget,
    create_blas_handle,
    default_tokens,
    devices_of,
    release,
)
from pytest_evals.models.engine.in_process_model import InProcessModel
from pytest_evals.models.engine.scorer import LoglikelihoodScorer
from pytest_evals.models.hf.forward import (
    Forward,
    TokenCounts,
    estimate_memory,
    sees_later_tokens,
)
from pytest_evals.models.hf.generation.decode import decoder_for
from pytest_evals.models.hf.generation.engine import GenerationEngine
from pytest_evals.models.hf.generation.kv_cache import MemoryBudget, free_tokens
from pytest_evals.models.hf.images.answers import ImageAnswers
from pytest_evals.models.hf.images.runner import ImageRuntime
from pytest_evals.models.hf.loader import describe, load
from pytest_evals.models.hf.scoring.padded_strategy import PaddedStrategy
from pytest_evals.models.hf.scoring.strategies import choose_strategy
from pytest_evals.models.hf.settings import HfSettings, fingerprint
from pytest_evals.models.prefetch import AnswerBatches
from pytest_evals.models.tokens.encoder import Ids
from pytest_evals.models.tokens.request_encoder import RequestEncoder


class HfModel(InProcessModel):
    """A causal language model."""

    def __init__(self, name: str, settings: HfSettings) -> None:
        """Load and test the model, or ``ModelError``: it fails, or is not causal."""
        loaded = load(settings)
        model = loaded.model
        create_blas_handle(model.device)
        if sees_later_tokens(model):
            raise ModelError(
                f"{settings.target!r} is not a causal language model: "
                "a token changes the probabilities of those before it"
            )
        forward = Forward(model)
        encoder = RequestEncoder(loaded.tokenizer, settings, loaded.n_embeddings)
        tokens = settings.batch_tokens or default_tokens(
            model, estimate_memory(forward).token
        )
        super().__init__(name, encoder, model.device)
        self._counters = TokenCounts()
        steps = decoder_for(forward, self._counters)
        budget = _budget(model, tokens, settings)
        self._engine = GenerationEngine(loaded, encoder, steps, budget)
        plain = PaddedStrategy(forward, self._counters)
        choice = choose_strategy(plain, loaded.max_length)
        self._settings = settings
        batch_tokens = settings.batch_tokens or choice.batch_tokens or tokens
        self._info = {
            **describe(loaded, name),
            **self._info,
            "scoring_path": choice.path.name,
            "batch_tokens": batch_tokens,
        }
        length = loaded.max_length
        rows = BatchBudget(batch_tokens, settings.batch_size)
        # lighteval cuts a continuation and its context together to the window, lm-eval
        # all but the last token, which is not read.
        pair_length = length - (settings.tokenization == "lighteval")
        self._scorer = LoglikelihoodScorer(encoder, choice, rows, length, pair_length)
        # A closed model is still asked for them, by the report.
        unused = (loaded.note,) if loaded.note else ()
        self._notes = (unused, self._scorer.notes, self._engine.notes)
        self._images: ImageAnswers | None = None
        if loaded.reads_images:
            runtime = ImageRuntime(loaded, encoder, self._counters, batch_tokens)
            self._images = ImageAnswers(runtime, self._engine)

    @property
    def info(self) -> Mapping[str, Any]:
        """Model metadata for results files."""
        return self._info

    def _check_generation(self) -> None:
        self._engine.check()

    def _generate(
        self, texts: Mapping[int, Generate], prompts: Mapping[int, Ids]
    ) -> AnswerBatches:
        if texts:
            self._scorer.forget()
        return self._engine.answer(texts, prompts)

    def _answer_images(self, requests: Mapping[int, Request]) -> AnswerBatches:
        if self._images is None:
            return super()._answer_images(requests)
        self._scorer.forget()
        return self._images.answer(requests)

    @cached_property
    def fingerprint(self) -> Mapping[str, Any] | None:
        """Equal for models with equal outputs; reads the model's files."""
        return fingerprint(self._settings, hash_file)

    @property
    def counters(self) -> Mapping[str, int]:
        """Tokens processed, ``n_read``, and those of them that were padding."""
        return self._counters.as_mapping()

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings about the results so far."""
        images = () if self._images is None else self._images.notes
        every = (*self._notes, self._tools.notes, images)
        return tuple(note for notes in every for note in notes)

    @property
    def tokenizer(self) -> Any:
        """The tokenizer of transformers."""
        return self._encoder.tokenizer

    def close(self) -> None:
        """Free the model's memory; it cannot be used afterwards."""
        super().close()
        del self._scorer, self._engine
        self._images = None
        release()


READING_SHARE = 4
"""Prefills use this fraction of the budget, since prompts are held twice meanwhile."""
PASS_COSTS = {"cpu": 64}  # Overhead of a forward pass in tokens; 512 on a GPU


def _budget(model: Any, tokens: int, settings: HfSettings) -> MemoryBudget:
    """Memory budget for generation: the user's limit, or the measured memory; limited
    on CPUs, and where memory cannot be measured."""
    kind, rows = model.device.type, settings.batch_size
    cost = PASS_COSTS.get(kind, 512)
    if settings.batch_tokens:
        return MemoryBudget(tokens, rows=rows, pass_cost=cost)
    read = max(1, tokens // READING_SHARE)
    most = sys.maxsize if kind in ("cuda", "xpu") else tokens
    measure = free_tokens(devices_of(model), most)
    return MemoryBudget(tokens, read, rows, pass_cost=cost, measure=measure)
