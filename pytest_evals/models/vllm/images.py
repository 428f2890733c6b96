"""Generations after prompts with images: vLLM's processor reads the images and puts
their tokens into the prompt."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from pytest_evals.core.request import Generate, Request, Response
from pytest_evals.errors import DocumentError
from pytest_evals.models.images.image_cache import ImageCache
from pytest_evals.models.images.processor import ImageProcessor
from pytest_evals.models.images.prompts import ImagePrompt, ImagePrompts, max_new_tokens
from pytest_evals.models.prefetch import Answer
from pytest_evals.models.tokens.request_encoder import InvalidRequestError
from pytest_evals.models.tokens.settings import ImageSettings
from pytest_evals.models.vllm.engine import EngineOutput, EngineRequest, VllmEngine
from pytest_evals.models.vllm.generation import SamplingInput, VllmGeneration
from pytest_evals.models.vllm.settings import NO_IMAGE_SCORES

WAITING_IMAGES = 64  # Requests with images in the engine at once: it holds their pixels


class _Job(NamedTuple):
    request: Generate
    prompt: ImagePrompt
    sampling: SamplingInput


class VllmImages:
    """Answers requests with images."""

    def __init__(
        self, engine: VllmEngine, settings: ImageSettings, generation: VllmGeneration
    ) -> None:
        self._engine = engine
        self._settings = settings
        self._generation = generation
        self._cache = ImageCache(settings)
        self.notes: dict[str, None] = {}  # Warnings about the results so far

    def answer(self, requests: Mapping[int, Request]) -> Iterator[Sequence[Answer]]:
        """Responses with the positions of their requests, as sequences finish."""
        jobs: dict[int, _Job] = {}
        for position, request in requests.items():
            try:
                jobs[position] = self._job(request)
            except DocumentError as error:
                yield [(position, Response(error=str(error)))]
        self.notes |= self._prompts.notes
        failed: dict[int, DocumentError] = {}
        begun = time.perf_counter()
        for outputs in self._engine.run(self._asked(jobs, failed), WAITING_IMAGES):
            share = (time.perf_counter() - begun) / len(outputs)
            yield [(o.key, self._response(jobs[o.key], o, share)) for o in outputs]
            begun = time.perf_counter()
        yield [(i, Response(error=str(error))) for i, error in failed.items()]

    @cached_property
    def _processor(self) -> ImageProcessor:
        config = self._engine.config.model_config.hf_config
        return ImageProcessor(config, self._settings)

    @cached_property
    def _prompts(self) -> ImagePrompts:
        return self._processor.prompts()

    @cached_property
    def _start(self) -> str:
        return self._processor.added_start

    def _job(self, request: Request) -> _Job:
        if not isinstance(request, Generate):
            raise DocumentError(NO_IMAGE_SCORES)
        sampling = self._generation.sampling(request, request.max_tokens)
        if isinstance(sampling, InvalidRequestError):
            raise sampling
        return _Job(request, self._prompts.of(request), sampling)

    def _asked(
        self, jobs: Mapping[int, _Job], failed: dict[int, DocumentError]
    ) -> Iterator[EngineRequest]:
        """Requests to the engine, whose images are decoded when it takes them."""
        for position, job in jobs.items():
            try:
                prompt = self._input(job.prompt)
            except DocumentError as error:
                failed[position] = error
                continue
            yield EngineRequest(position, [], job.sampling.params, prompt)

    def _input(self, prompt: ImagePrompt) -> Mapping[str, Any]:
        """vLLM's ``TextPrompt`` (vLLM 0.33, ``docs/features/multimodal_inputs.md``)."""
        images = self._cache.images(prompt.images)
        self._cache.keep([prompt.images])
        # vLLM adds the first token of every text.
        text = prompt.text.removeprefix(self._start) if prompt.is_bare else prompt.text
        found = {"prompt": text, "multi_modal_data": {"image": images}}
        limits = self._settings.pixel_limits
        return {**found, "mm_processor_kwargs": limits} if limits else found

    def _response(self, job: _Job, one: EngineOutput, share: float) -> Response:
        if one.error:
            return Response(error=one.error)
        n_prompt = len(one.output.prompt_token_ids or ())
        try:
            max_new_tokens(job.request, n_prompt, self._engine.max_length)
        except DocumentError as error:
            return Response(error=str(error), elapsed_s=share)
        counts = (n_prompt, n_prompt)
        return self._generation.response(job.request, job.sampling, one, share, counts)
