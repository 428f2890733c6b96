"""A model in vLLM that answers requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

from pytest_evals.core.model import Model
from pytest_evals.core.request import Generate, Prompt, Request, Response
from pytest_evals.models.hf.batches import BatchBudget
from pytest_evals.models.hf.device_memory import inference_thread
from pytest_evals.models.hf.fingerprint import hash_file
from pytest_evals.models.hf.loader import (
    describe_tokenizer,
    device_name,
    load_tokenizer,
    weights_hash,
)
from pytest_evals.models.hf.prefetch import Prefetch
from pytest_evals.models.hf.scoring.scorer import LoglikelihoodScorer
from pytest_evals.models.hf.scoring.strategies import StrategyChoice
from pytest_evals.models.hf.tokenization.background_encoding import (
    BackgroundEncoder,
    PendingRequests,
)
from pytest_evals.models.hf.tokenization.request_encoder import RequestEncoder
from pytest_evals.models.hf.tokenization.tokenizer import first_tokens
from pytest_evals.models.vllm.engine import VllmEngine
from pytest_evals.models.vllm.fingerprint import (
    environment,
    fingerprint,
    vllm_version,
)
from pytest_evals.models.vllm.generation import VllmGeneration
from pytest_evals.models.vllm.scoring import VllmScoring
from pytest_evals.models.vllm.settings import VllmSettings

RESERVED = 2
"""Tokens of the window that are not available for scoring: vLLM needs one for a new
token, and the last scored token is an input too (lm-eval 0.4.13,
``VLLM._loglikelihood_tokens``)."""


class VllmModel(Model):
    """A causal language model in vLLM.

    Tokenization, truncation, rolling windows and decoding are those of ``hf:`` models;
    windows are ``RESERVED`` tokens shorter for log-likelihoods.
    """

    def __init__(self, name: str, settings: VllmSettings) -> None:
        """Load the model and run self-tests.

        Raises:
            OptionError: vLLM rejects an engine argument.
            ModelError: The model cannot be loaded, or another one is open.
        """
        tokenizer = load_tokenizer(settings.hf)
        self.name = name
        self._settings = settings
        self._engine = VllmEngine(settings)
        try:
            self._prepare(tokenizer)
        except BaseException:
            self._engine.close()
            raise

    def _prepare(self, tokenizer: Any) -> None:
        engine, settings = self._engine, self._settings
        self._encoder = RequestEncoder(tokenizer, settings.hf, engine.vocab_size)
        self._expected = BackgroundEncoder(self._encoder)
        self._scoring = VllmScoring(engine, reuses_prefix=settings.reuse_prefix)
        self._scorer = LoglikelihoodScorer(
            self._encoder,
            StrategyChoice(self._scoring, self._scoring.note, 0),
            BatchBudget(engine.max_length),
            max(1, engine.max_length - RESERVED),
        )
        self._generation = VllmGeneration(
            engine, self._encoder, settings.hf.think_end_token
        )
        self._running: list[Prefetch[tuple[int, Response]]] = []
        self.works_ahead: bool = engine.device.type != "cpu"
        self._info: Mapping[str, Any] = {
            **_described(engine, settings),
            **describe_tokenizer(tokenizer, settings.hf),
            "model": self.name,
            "prefix_token_id": self._encoder.prefix_id,
            "bos_rule": self._encoder.bos_rule,
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
        return tuple(self._scorer.notes)

    @cached_property
    def fingerprint(self) -> Mapping[str, Any] | None:
        """Equal for models with equal outputs; reads the model's files."""
        return fingerprint(self._settings, hash_file)

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Response]]:
        """Answer all requests; yields responses as they finish.

        Raises:
            ModelError: The engine fails.
        """
        if "first_tokens" not in self._info:
            self._info = {**self._info, **first_tokens(self._encoder, requests)}
        answers = self._answer(requests, self._expected.take(requests))
        if not self.works_ahead:
            return answers
        ahead = Prefetch(answers, partial(inference_thread, self._engine.device))
        self._running = [ahead]
        return ahead

    def expect(self, requests: Sequence[Request]) -> None:
        """Encode the next requests while the engine runs."""
        self._expected.expect(requests)

    def _answer(
        self, requests: Sequence[Request], known: PendingRequests
    ) -> Iterator[tuple[int, Response]]:
        texts = {i: r for i, r in enumerate(requests) if isinstance(r, Generate)}
        asked = known.encoded()
        for position, why in asked.refused.items():
            yield position, Response(error=str(why))
        yield from self._scorer.answer(asked.pairs, asked.texts)
        yield from self._generation.answer(texts, asked.prompts)

    def render(self, prompt: Prompt) -> str:
        """The prompt as a string; chats are rendered by the tokenizer's template.

        Raises:
            DocumentError: The template is missing, or rejects the chat.
        """
        return self._encoder.render(prompt)

    def close(self) -> None:
        """Stop the engine; the model cannot be used afterwards."""
        self._expected.close()
        for ahead in self._running:
            ahead.close()
        self._engine.close()


def _described(engine: VllmEngine, settings: VllmSettings) -> dict[str, Any]:
    """Metadata of the engine: JSON values without secrets."""
    config = engine.config
    model, parallel = config.model_config, config.parallel_config
    return {
        "pretrained": settings.target,
        "revision": settings.hf.revision,
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
