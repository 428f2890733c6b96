"""Responses to requests with images: generations, and log-likelihoods of
continuations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from pytest_evals.core.request import (
    Generate,
    ImageLoglikelihood,
    Loglikelihood,
    Request,
    Response,
)
from pytest_evals.errors import DocumentError
from pytest_evals.models.engine.generation_options import slow_settings
from pytest_evals.models.hf.generation.engine import GenerationEngine, GenerationJob
from pytest_evals.models.hf.generation.sampling import (
    SamplingParams,
    sampling_params_of,
)
from pytest_evals.models.hf.images.runner import BatchRunner, ImageRuntime
from pytest_evals.models.hf.images.scoring import ContextJob, ContinuationRunner
from pytest_evals.models.images.processor import IDS, EncodedPrompts
from pytest_evals.models.images.prompts import ImagePrompt, max_new_tokens
from pytest_evals.models.prefetch import Answer
from pytest_evals.models.tokens.request_encoder import InvalidRequestError


class TextJob(NamedTuple):
    """A text to generate."""

    position: int
    request: Generate
    prompt: ImagePrompt
    params: SamplingParams

    @property
    def positions(self) -> tuple[int]:
        """The position of the request."""
        return (self.position,)


class TextRunner(BatchRunner[TextJob]):
    """Generates texts by transformers' ``generate``, those of a call with equal
    sampling parameters. Prompts are never truncated: images would be cut."""

    def __init__(self, runtime: ImageRuntime, engine: GenerationEngine) -> None:
        super().__init__(runtime)
        self._engine = engine

    def _check(self, job: TextJob, n_prompt: int) -> None:
        self._limit(job, n_prompt)

    def _limit(self, job: TextJob, n_prompt: int) -> int:
        return max_new_tokens(job.request, n_prompt, self._runtime.loaded.max_length)

    def _logits(self, encoded: EncodedPrompts, jobs: Sequence[TextJob]) -> list[Tensor]:
        return [*self._runtime.logits(encoded, 1)[0]]

    def _run(self, encoded: EncodedPrompts, jobs: Sequence[TextJob]) -> list[Answer]:
        lengths, ids = encoded.lengths, encoded.tensors[IDS].numpy().astype(np.int32)
        asked = [
            GenerationJob(job.position, job.request, row[-n:], self._limit(job, n), n)
            for job, row, n in zip(jobs, ids, lengths, strict=True)
        ]
        inputs = self._runtime.placed(encoded)
        return self._engine.answer_batch(asked, inputs, jobs[0].params)


class ImageAnswers:
    """Answers requests with images."""

    def __init__(self, runtime: ImageRuntime, engine: GenerationEngine) -> None:
        self._runtime = runtime
        self.notes = runtime.notes
        self._texts = TextRunner(runtime, engine)
        self._continuations = ContinuationRunner(runtime)

    def answer(self, requests: Mapping[int, Request]) -> Iterator[Sequence[Answer]]:
        """Responses with the positions of their requests, batch by batch."""
        contexts: dict[Any, ContextJob] = {}
        groups: dict[SamplingParams, list[TextJob]] = {}
        for position, request in requests.items():
            try:
                if isinstance(request, ImageLoglikelihood):
                    self._add(contexts, position, request)
                elif isinstance(request, Generate):
                    job = self._job(position, request)
                    groups.setdefault(job.params, []).append(job)
            except DocumentError as error:
                yield [(position, Response(error=str(error)))]
        self.notes |= self._runtime.prompts.notes
        if contexts:
            jobs = [*contexts.values()]
            longest = max(len(job.ids) for job in jobs)
            yield from self._continuations.run(jobs, longest)
        for params, texts in groups.items():
            longest = max(job.request.max_tokens for job in texts)
            # Results of sampling and of beam search would depend on the batch.
            singly = bool(params.temperature or params.slow)
            yield from self._texts.run(texts, longest, singly=singly)

    def _job(self, position: int, request: Generate) -> TextJob:
        config = self._runtime.model.generation_config
        params = sampling_params_of(request, config, slow_settings(config))
        return TextJob(position, request, self._runtime.prompts.of(request), params)

    def _add(
        self,
        contexts: dict[Any, ContextJob],
        position: int,
        request: ImageLoglikelihood,
    ) -> None:
        """Add a continuation to the context with which it is scored. White space at the
        end of the context belongs to the continuation, as in text."""
        prompt = self._runtime.prompts.of(request)
        text = Loglikelihood(prompt.text, request.continuation)
        (pair,) = self._runtime.encoder.pairs([text])
        if isinstance(pair, InvalidRequestError):
            raise pair
        ids = pair.continuation.tolist()
        prompt = prompt._replace(text=prompt.text.rstrip())
        key = (prompt, tuple(ids[:-1]))
        contexts.setdefault(key, ContextJob(prompt, [])).members.append((position, ids))
