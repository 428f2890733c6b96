"""Generations after prompts with images: vLLM's processor reads the images and puts
their tokens into the prompt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from pytest_evals.core.request import Generate, Request, Response
from pytest_evals.errors import DocumentError
from pytest_evals.models.images.image_cache import ImageCache
from pytest_evals.models.images.processor import ImageProcessor
from pytest_evals.models.images.prompts import ImagePrompt, ImagePrompts, max_new_tokens
from pytest_evals.models.prefetch import Answer
from pytest_evals.models.tokens.settings import ImageSettings
from pytest_evals.models.vllm.engine import EngineOutput, EngineRequest, VllmEngine
from pytest_evals.models.vllm.generation import SamplingInput, VllmGeneration
from pytest_evals.models.vllm.settings import NO_IMAGE_SCORES

WAITING_IMAGES = 64  # Requests with images in the engine at once: it holds their pixels
_Jobs = Mapping[int, tuple[SamplingInput, ImagePrompt]]


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
        jobs: dict[int, tuple[SamplingInput, ImagePrompt]] = {}
        for position, request in requests.items():
            try:
                if not isinstance(request, Generate):
                    raise DocumentError(NO_IMAGE_SCORES)
                sampling = self._generation.sampling(request, request.max_tokens)
                jobs[position] = sampling, self._prompts.of(request)
            except DocumentError as error:
                yield [(position, Response(error=str(error)))]
        self.notes |= self._prompts.notes
        failed: dict[int, DocumentError] = {}

        def respond(one: EngineOutput, share: float) -> Response:
            return self._response(jobs[one.key][0], one, share)

        asked = self._asked(jobs, failed)
        yield from self._generation.responses(asked, respond, WAITING_IMAGES)
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

    def _asked(
        self, jobs: _Jobs, failed: dict[int, DocumentError]
    ) -> Iterator[EngineRequest]:
        """Requests to the engine, whose images are decoded when it takes them."""
        for position, (sampling, prompt) in jobs.items():
            try:
                given = self._input(prompt)
            except DocumentError as error:
                failed[position] = error
                continue
            yield EngineRequest(position, [], sampling.params, given)

    def _input(self, prompt: ImagePrompt) -> Mapping[str, Any]:
        """vLLM's ``TextPrompt`` (vLLM 0.33, ``docs/features/multimodal_inputs.md``)."""
        images = self._cache.images(prompt.images)
        self._cache.keep([prompt.images])
        # vLLM adds the first token of every text.
        text = prompt.text.removeprefix(self._start) if prompt.is_bare else prompt.text
        found = {"prompt": text, "multi_modal_data": {"image": images}}
        limits = self._settings.pixel_limits
        return {**found, "mm_processor_kwargs": limits} if limits else found

    def _response(
        self, sampling: SamplingInput, one: EngineOutput, share: float
    ) -> Response:
        n = len(one.output.prompt_token_ids or ())
        try:
            max_new_tokens(sampling.request, n, self._engine.max_length)
        except DocumentError as error:
            return Response(error=str(error), elapsed_s=share)
        return self._generation.response(sampling, one, share, n, n)
