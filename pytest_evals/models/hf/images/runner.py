"""Runs requests with images in batches.

Whether a batch gives the logits of single calls is tested with the first one; if it
does not, or memory runs out, requests run one by one.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor
from transformers import LogitsProcessor, LogitsProcessorList

from pytest_evals.core.request import Response
from pytest_evals.errors import DocumentError
from pytest_evals.models.engine.device_memory import or_none
from pytest_evals.models.hf.forward import TokenCounts, relative_error, tolerance
from pytest_evals.models.hf.loader import LoadedModel
from pytest_evals.models.images.processor import (
    IDS,
    EncodedPrompts,
    ImageProcessor,
    on_device,
)
from pytest_evals.models.images.prompts import ImageCache, ImagePrompt, ImagePrompts
from pytest_evals.models.prefetch import Answer, AnswerBatches
from pytest_evals.models.tokens.request_encoder import (
    InvalidRequestError,
    RequestEncoder,
)

MAX_ROWS = {"cpu": 8}  # Most rows of a batch; 64 on a GPU
TESTED_ROWS = 2  # Rows of the first batch, which is tested


class ImageJob(Protocol):
    """Something to compute after a prompt with images."""

    @property
    def prompt(self) -> ImagePrompt:
        """The prompt."""

    @property
    def positions(self) -> Sequence[int]:
        """The positions of its requests."""


J = TypeVar("J", bound=ImageJob)


class EncodedBatch(NamedTuple, Generic[J]):
    """Some jobs with the tensors of their prompts; or a job with its error."""

    jobs: Sequence[J]
    encoded: EncodedPrompts | DocumentError


class ImageRuntime:
    """A model with its processor, which is loaded for the first request with images."""

    def __init__(
        self,
        loaded: LoadedModel,
        encoder: RequestEncoder,
        counters: TokenCounts,
        batch_tokens: int,
    ) -> None:
        """``batch_tokens``: most tokens of a batch, those of images included."""
        self.loaded = loaded
        self.model = loaded.model
        self.encoder = encoder
        self.notes: dict[str, None] = {}  # Warnings about the results so far
        self._cache = ImageCache(loaded.settings)
        self._counters = counters
        self._batch_tokens = batch_tokens
        self._longest = 0

    @cached_property
    def processor(self) -> ImageProcessor:
        """The processor."""
        return ImageProcessor(self.model.config, self.loaded.settings)

    @cached_property
    def prompts(self) -> ImagePrompts:
        """Makes prompts of requests."""
        return self.processor.prompts()

    def batches(
        self, jobs: Iterable[J], n_rows: Callable[[], int]
    ) -> Iterator[EncodedBatch[J]]:
        """Batches of neighbouring jobs, whose images are decoded in a thread, one batch
        ahead of the model. ``n_rows``: most rows of the next batch."""
        waiting = deque(jobs)
        with ThreadPoolExecutor(1, thread_name_prefix="evals-images") as pool:
            coming = deque[Future[deque[EncodedBatch[J]]]]()
            while waiting or coming:
                ready = coming.popleft().result() if coming else None
                if waiting:
                    coming.append(pool.submit(self.encoded, _next(waiting, n_rows())))
                while ready:
                    yield ready.popleft()

    def encoded(self, jobs: Sequence[J]) -> deque[EncodedBatch[J]]:
        """The batch of some jobs, and errors of others."""
        found = deque[EncodedBatch[J]]()
        images, known = [], []
        for job in jobs:
            try:
                images.append(self._cache.images(job.prompt.images))
                known.append(job)
            except DocumentError as error:
                found.append(EncodedBatch([job], error))
        self._cache.keep([job.prompt.images for job in jobs])
        if known:
            found += self._processed(known, images)
        return found

    def _processed(
        self, jobs: Sequence[J], images: Sequence[Sequence[object]]
    ) -> Iterator[EncodedBatch[J]]:
        """One batch; if the processor refuses it, each prompt alone."""
        try:
            encoded = self.processor.encode([job.prompt for job in jobs], images)
            yield EncodedBatch(jobs, encoded)
        except DocumentError as error:
            if len(jobs) == 1:
                yield EncodedBatch(jobs, error)
                return
            for job, some in zip(jobs, images, strict=True):
                yield from self._processed([job], [some])

    def n_rows(self, n_new: int) -> int:
        """Most rows of the next batch, of which each gets up to ``n_new`` tokens."""
        if not self._longest:
            return TESTED_ROWS
        rows = self.loaded.settings.batch_size
        most = rows or MAX_ROWS.get(self.model.device.type, 64)
        return max(1, min(most, self._batch_tokens // (self._longest + n_new)))

    def count(self, encoded: EncodedPrompts) -> None:
        """Count the tokens of a batch."""
        self._longest = max(self._longest, *encoded.lengths)
        self._counters.add(encoded.tensors[IDS].numel(), sum(encoded.lengths))

    def halve(self) -> None:
        """Make batches smaller: memory ran out."""
        self._batch_tokens = max(1, self._batch_tokens // 2)

    @torch.inference_mode()
    def logits(
        self, encoded: EncodedPrompts, n_new: int, *processors: LogitsProcessor
    ) -> list[Tensor]:
        """(B, V) float32 for each of ``n_new`` greedy steps of generation."""
        found: Any = self.model.generate(
            **self.placed(encoded),
            logits_processor=LogitsProcessorList(processors),
            pad_token_id=self.processor.pad_id,
            max_new_tokens=n_new,
            eos_token_id=self.loaded.n_embeddings,  # no token ends it
            do_sample=False,
            num_beams=1,
            return_dict_in_generate=True,
            output_logits=True,
        )
        return [step.float() for step in found.logits]

    def placed(self, encoded: EncodedPrompts) -> dict[str, Tensor]:
        """The tensors as arguments of the model."""
        return on_device(encoded.tensors, self.model.device, self.model.dtype)


def _next(waiting: deque[J], n_rows: int) -> list[J]:
    """The next jobs, at most so many, with equal rules for their first token."""
    some = [waiting.popleft()]
    is_bare = some[0].prompt.is_bare
    while waiting and len(some) < n_rows and waiting[0].prompt.is_bare == is_bare:
        some.append(waiting.popleft())
    return some


class BatchRunner(Generic[J]):
    """Runs jobs of one kind."""

    def __init__(self, runtime: ImageRuntime) -> None:
        self._runtime = runtime
        self._may_batch: bool | None = None  # Unknown until the first batch

    def run(
        self, jobs: Sequence[J], n_new: int, *, singly: bool = False
    ) -> AnswerBatches:
        """Responses by position, batch by batch. A row gets up to ``n_new`` tokens.
        ``singly``: whether each job runs alone."""

        def n_rows() -> int:
            alone = singly or self._may_batch is False
            return 1 if alone else self._runtime.n_rows(n_new)

        for batch in self._runtime.batches(jobs, n_rows):
            yield self._answers(batch)

    def _answers(self, batch: EncodedBatch[J]) -> Sequence[Answer]:
        jobs, encoded = batch
        if isinstance(encoded, DocumentError):
            return _errors(jobs, str(encoded))
        n = max(encoded.lengths)
        why = f"{n} tokens, images included, do not fit into the device's memory"
        try:
            for job, length in zip(jobs, encoded.lengths, strict=True):
                self._check(job, length)
            if len(jobs) == 1 or self._is_exact(jobs, encoded):
                self._runtime.count(encoded)
                done = or_none(lambda: self._run(encoded, jobs))
                if done is not None:
                    return done
                self._runtime.halve()
        except InvalidRequestError as error:
            why = str(error)
        if len(jobs) == 1:
            return _errors(jobs, why)
        singles = self._singles(jobs)
        return [answer for one in singles for answer in self._answers(one)]

    def _is_exact(self, jobs: Sequence[J], encoded: EncodedPrompts) -> bool:
        """Whether a batch gives the logits of single calls; tested once."""
        if self._may_batch is None:
            self._may_batch = self._tested(jobs, encoded)
            if not self._may_batch:
                self._runtime.notes[_ALONE] = None
        return self._may_batch

    def _tested(self, jobs: Sequence[J], encoded: EncodedPrompts) -> bool:
        alone = [
            self._logits(one.encoded, one.jobs)[0]
            for one in [*self._singles(jobs)]
            if isinstance(one.encoded, EncodedPrompts)
        ]
        found = or_none(lambda: self._logits(encoded, jobs))
        return found is not None and all(
            relative_error(one, other) <= tolerance(self._runtime.model)
            for one, other in zip(found, alone, strict=True)
        )

    def _singles(self, jobs: Sequence[J]) -> Iterator[EncodedBatch[J]]:
        for job in jobs:
            yield from self._runtime.encoded([job])

    @abstractmethod
    def _check(self, job: J, n_prompt: int) -> None:
        """Raise :class:`InvalidRequestError` if the prompt is too long for a job."""

    @abstractmethod
    def _logits(self, encoded: EncodedPrompts, jobs: Sequence[J]) -> list[Tensor]:
        """Logits of each job, to be compared."""

    @abstractmethod
    def _run(self, encoded: EncodedPrompts, jobs: Sequence[J]) -> list[Answer]:
        """Responses to a batch."""


def _errors(jobs: Iterable[ImageJob], why: str) -> list[Answer]:
    return [(i, Response(error=why)) for job in jobs for i in job.positions]


_ALONE = (
    "requests with images run one by one: in a batch this model gives other numbers"
)
