"""A model in vLLM that answers requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from pytest_evals.core.request import Generate, Request
from pytest_evals.models.checkpoint import hash_file, weights_hash
from pytest_evals.models.engine.device_memory import BatchBudget, device_name
from pytest_evals.models.engine.in_process_model import InProcessModel
from pytest_evals.models.engine.scorer import LoglikelihoodScorer, StrategyChoice
from pytest_evals.models.folders import lacks_image_processor
from pytest_evals.models.prefetch import AnswerBatches
from pytest_evals.models.tokens.encoder import Ids
from pytest_evals.models.tokens.loader import describe_tokenizer, load_tokenizer
from pytest_evals.models.tokens.request_encoder import RequestEncoder
from pytest_evals.models.vllm.engine import VllmEngine
from pytest_evals.models.vllm.generation import VllmGeneration, VllmImages
from pytest_evals.models.vllm.scoring import VllmScoring
from pytest_evals.models.vllm.settings import (
    VllmSettings,
    environment,
    fingerprint,
    vllm_version,
)

RESERVED = 2
"""Tokens of the window that are not available for scoring: vLLM needs one for a new
token, and the last scored token is an input too (lm-eval 0.4.13,
``VLLM._loglikelihood_tokens``)."""


class VllmModel(InProcessModel):
    """A causal language model in vLLM.

    Tokenization, truncation, rolling windows and decoding are those of ``hf:`` models;
    windows are ``RESERVED`` tokens shorter for log-likelihoods.
    """

    def __init__(self, name: str, settings: VllmSettings) -> None:
        """Load the model and run self-tests. Raises ``OptionError`` if vLLM rejects an
        engine argument. Raises ``ModelError`` if the model cannot be loaded, or another
        one is open."""
        tokenizer = load_tokenizer(settings.tokens)
        self._settings = settings
        self._engine = VllmEngine(settings)
        try:
            encoder = RequestEncoder(
                tokenizer, settings.tokens, self._engine.vocab_size
            )
            super().__init__(name, encoder, self._engine.device)
            self._prepare(tokenizer)
        except BaseException:
            self._engine.close()
            raise

    def _prepare(self, tokenizer: Any) -> None:
        engine, settings = self._engine, self._settings
        self._scoring = VllmScoring(engine, reuses_prefix=settings.reuse_prefix)
        self._scorer = LoglikelihoodScorer(
            self._encoder,
            StrategyChoice(self._scoring, self._scoring.note, 0),
            BatchBudget(engine.max_length),
            max(1, engine.max_length - RESERVED),
        )
        self._generation = VllmGeneration(
            engine, self._encoder, settings.tokens.think_end_token
        )
        self._images: VllmImages | None = None
        if not lacks_image_processor(settings.target):
            self._images = VllmImages(engine, settings.tokens, self._generation)
        self._info = {
            **_described(engine, settings),
            **describe_tokenizer(tokenizer, settings.tokens),
            **self._info,
            "scoring_path": "vllm"
            + "+candidates" * self._scoring.has_candidates
            + "+reuse_prefix" * self._scoring.reuses_prefix,
        }

    @property
    def info(self) -> Mapping[str, Any]:
        """Model metadata for results files, and token counts."""
        parts = (self._scoring, self._generation)
        usage = {
            "vllm_prompt_tokens": sum(part.n_prompt for part in parts),
            "vllm_cached_prompt_tokens": sum(part.n_cached for part in parts),
        }
        return {**self._info, "usage": usage}

    @property
    def notes(self) -> Sequence[str]:
        """Warnings about the results so far."""
        images = () if self._images is None else self._images.notes
        return (*self._scorer.notes, *self._tools.notes, *images)

    @cached_property
    def fingerprint(self) -> Mapping[str, Any] | None:
        """Equal for models with equal outputs; reads the model's files."""
        return fingerprint(self._settings, hash_file)

    def _generate(
        self, texts: Mapping[int, Generate], prompts: Mapping[int, Ids]
    ) -> AnswerBatches:
        return self._generation.answer(texts, prompts)

    def _answer_images(self, requests: Mapping[int, Request]) -> AnswerBatches:
        if self._images is None:
            return super()._answer_images(requests)
        return self._images.answer(requests)

    def close(self) -> None:
        """Stop the engine; the model cannot be used afterwards."""
        super().close()
        self._engine.close()


def _described(engine: VllmEngine, settings: VllmSettings) -> dict[str, Any]:
    config = engine.config
    model, parallel = config.model_config, config.parallel_config
    return {
        "pretrained": settings.target,
        "revision": settings.tokens.revision,
        "commit": getattr(model.hf_config, "_commit_hash", None) or "",
        "weights": weights_hash(settings.target),
        "model_class": next(iter(model.architectures or ()), ""),
        "dtype": str(model.dtype).removeprefix("torch."),
        "device": engine.device.type,
        "device_name": device_name(engine.device),
        "quantization": model.quantization or "",
        "max_length": engine.max_length,
        "tensor_parallel_size": parallel.tensor_parallel_size,
        "pipeline_parallel_size": parallel.pipeline_parallel_size,
        "engine_config": config.compute_hash(),
        "environment": environment(),
        "vllm_version": vllm_version(),
    }
