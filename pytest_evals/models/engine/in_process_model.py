"""A model whose engine runs in this process: encodes requests, scores them, and
generates text."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch

from pytest_evals.core.request import Generate, Prompt, Request, Response
from pytest_evals.models.engine.background_encoding import (
    BackgroundEncoder,
    PendingRequests,
)
from pytest_evals.models.engine.device_memory import inference_thread
from pytest_evals.models.engine.scorer import LoglikelihoodScorer
from pytest_evals.models.engine.tool_replies import ToolReplies
from pytest_evals.models.prefetch import Answer, BatchModel
from pytest_evals.models.tokens.request_encoder import RequestEncoder
from pytest_evals.models.tokens.tokenizer import first_tokens


class InProcessModel(BatchModel):
    """A causal language model in this process."""

    is_deterministic = True
    _scorer: LoglikelihoodScorer

    def __init__(
        self, name: str, encoder: RequestEncoder, device: torch.device
    ) -> None:
        """Prepare for requests; the subclass sets ``_scorer``."""
        self.name = name
        self.works_ahead: bool = device.type != "cpu"
        """Whether inference continues in the background between two responses. On a CPU
        it would only compete with scoring."""
        self._encoder = encoder
        self._tools = ToolReplies(encoder.tokenizer)
        self._expected = BackgroundEncoder(encoder)
        self._device = device
        self._info: Mapping[str, Any] = {
            "model": name,
            "prefix_token_id": encoder.prefix_id,
            "bos_rule": encoder.bos_rule,
        }

    def answer(self, requests: Sequence[Request]) -> Iterator[Answer]:
        """Answer all requests; yields responses as batches finish.

        Raises:
            ModelError: The engine fails or cannot generate text as configured.
        """
        if "first_tokens" not in self._info:
            self._info = {**self._info, **first_tokens(self._encoder, requests)}
        batches = self._answer(requests, self._expected.take(requests))
        settings = partial(inference_thread, self._device)
        return self._answers(requests, batches, settings if self.works_ahead else None)

    def expect(self, requests: Sequence[Request]) -> None:
        """Encode the next requests while the model runs."""
        self._expected.expect(requests)

    def render(self, prompt: Prompt) -> str:
        """The prompt as a string; chats are rendered by the tokenizer's template.

        Raises:
            DocumentError: There is no template, or it refuses the chat.
        """
        return self._encoder.render(prompt)

    def close(self) -> None:
        """Stop the threads; the model cannot be used afterwards."""
        self._expected.close()
        super().close()

    def _answer(
        self, requests: Sequence[Request], known: PendingRequests
    ) -> Iterator[Sequence[Answer]]:
        texts = {i: r for i, r in enumerate(requests) if isinstance(r, Generate)}
        if texts:
            self._check_generation()
        asked = known.encoded()
        yield [(i, Response(error=str(why))) for i, why in asked.refused.items()]
        yield from self._scorer.answer(asked.pairs, asked.texts)
        for batch in self._generate(texts, asked.prompts):
            yield [(i, self._tools.read(texts[i], one)) for i, one in batch]

    def _check_generation(self) -> None:
        """Raise if text cannot be generated, before anything is run."""

    @abstractmethod
    def _generate(
        self, texts: Mapping[int, Generate], prompts: Mapping[int, Any]
    ) -> Iterator[Sequence[Answer]]: ...
