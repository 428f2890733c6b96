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
from pytest_evals.models.images.image_cache import ImageCache
from pytest_evals.models.images.processor import (
    IDS,
    EncodedPrompts,
    ImageProcessor,
    on_device,
)
from pytest_evals.models.images.prompts import ImagePrompt, ImagePrompts
from pytest_evals.models.prefetch import Answer
from pytest_evals.models.tokens.request_encoder import (
    InvalidRequestError,
    RequestEncoder,
)
from pytest_evals.models.tokens.settings import ImageSettings


class EncodedBatch(NamedTuple):
    """Some prompts by their numbers, with their tensors; or a prompt's error."""

    numbers: Sequence[int]
    encoded: EncodedPrompts | DocumentError


class ImageBatches:
    """Decodes and encodes prompts with images in a thread, one batch ahead of the
    model."""

    def __init__(self, processor: ImageProcessor, settings: ImageSettings) -> None:
        self._processor = processor
        self._cache = ImageCache(settings)

    def encoded(
        self, prompts: Sequence[ImagePrompt], n_rows: Callable[[], int]
    ) -> Iterator[EncodedBatch]:
        """Yield batches of neighbouring prompts.

        Args:
            n_rows: Most rows of the next batch.
        """
        waiting = deque(range(len(prompts)))
        with ThreadPoolExecutor(1, thread_name_prefix="evals-images") as pool:
            coming = deque[Future[deque[EncodedBatch]]]()
            while waiting or coming:
                ready = coming.popleft().result() if coming else None
                if waiting:
                    some = _next(waiting, prompts, n_rows())
                    coming.append(pool.submit(self._batches, some, prompts))
                while ready:
                    yield ready.popleft()

    def again(
        self, numbers: Iterable[int], prompts: Sequence[ImagePrompt]
    ) -> Iterator[EncodedBatch]:
        """Yield prompts as batches of one."""
        for number in numbers:
            yield from self._batches([number], prompts)

    def _batches(
        self, numbers: Sequence[int], prompts: Sequence[ImagePrompt]
    ) -> deque[EncodedBatch]:
        found = deque[EncodedBatch]()
        images, known = [], []
        for number in numbers:
            try:
                images.append(self._cache.images(prompts[number].images))
                known.append(number)
            except DocumentError as error:
                found.append(EncodedBatch([number], error))
        self._cache.keep([prompts[number].images for number in numbers])
        if known:
            found += self._processed(known, images, prompts)
        return found

    def _processed(
        self,
        numbers: Sequence[int],
        images: Sequence[Sequence[object]],
        prompts: Sequence[ImagePrompt],
    ) -> Iterator[EncodedBatch]:
        """One batch; if the processor refuses it, each prompt alone."""
        try:
            encoded = self._processor.encode([prompts[n] for n in numbers], images)
            yield EncodedBatch(numbers, encoded)
        except DocumentError as error:
            if len(numbers) == 1:
                yield EncodedBatch(numbers, error)
                return
            for number, some in zip(numbers, images, strict=True):
                yield from self._processed([number], [some], prompts)


def _next(
    waiting: deque[int], prompts: Sequence[ImagePrompt], n_rows: int
) -> list[int]:
    """The next prompts, at most so many, with equal rules for their first token."""
    some = [waiting.popleft()]
    while (
        waiting
        and len(some) < n_rows
        and prompts[waiting[0]].is_bare == prompts[some[0]].is_bare
    ):
        some.append(waiting.popleft())
    return some


MAX_ROWS = {"cpu": 8}  # Most rows of a batch; 64 on a GPU
TESTED_ROWS = 2  # Rows of the first batch, which is tested


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

    @cached_property
    def batches(self) -> ImageBatches:
        """Decodes and encodes."""
        return ImageBatches(self.processor, self.loaded.settings)

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


class ImageJob(Protocol):
    """Something to compute after a prompt with images."""

    @property
    def prompt(self) -> ImagePrompt:
        """The prompt."""
        ...


J = TypeVar("J", bound=ImageJob)


class BatchRunner(Generic[J]):
    """Runs jobs of one kind."""

    def __init__(self, runtime: ImageRuntime) -> None:
        self._runtime = runtime
        self._may_batch: bool | None = None  # Unknown until the first batch

    def run(
        self, jobs: Sequence[J], n_new: int, *, singly: bool = False
    ) -> Iterator[Sequence[Answer]]:
        """Responses by position, batch by batch.

        Args:
            n_new: Most tokens that a row gets.
            singly: Whether each job runs alone.
        """

        def n_rows() -> int:
            alone = singly or self._may_batch is False
            return 1 if alone else self._runtime.n_rows(n_new)

        prompts = [job.prompt for job in jobs]
        for batch in self._runtime.batches.encoded(prompts, n_rows):
            yield self._answers(batch, jobs)

    def _answers(self, batch: EncodedBatch, jobs: Sequence[J]) -> Sequence[Answer]:
        some, encoded = [jobs[number] for number in batch.numbers], batch.encoded
        if isinstance(encoded, DocumentError):
            return [one for job in some for one in self._errors(job, str(encoded))]
        sized = zip(some, encoded.lengths, strict=True)
        n = max(encoded.lengths)
        why = f"{n} tokens, images included, do not fit into the device's memory"
        try:
            for job, length in sized:
                self._check(job, length)
            if len(some) == 1 or self._is_exact(batch, encoded, jobs):
                self._runtime.count(encoded)
                done = or_none(lambda: self._run(encoded, some))
                if done is not None:
                    return done
                self._runtime.halve()
        except InvalidRequestError as error:
            why = str(error)
        if len(some) == 1:
            return self._errors(some[0], why)
        singles = self._singles(batch, jobs)
        return [answer for one in singles for answer in self._answers(one, jobs)]

    def _is_exact(
        self, batch: EncodedBatch, encoded: EncodedPrompts, jobs: Sequence[J]
    ) -> bool:
        """Whether a batch gives the logits of single calls; tested once."""
        if self._may_batch is None:
            self._may_batch = self._tested(batch, encoded, jobs)
            if not self._may_batch:
                self._runtime.notes[_ALONE] = None
        return self._may_batch

    def _tested(
        self, batch: EncodedBatch, encoded: EncodedPrompts, jobs: Sequence[J]
    ) -> bool:
        some = [jobs[number] for number in batch.numbers]
        singles = [*self._singles(batch, jobs)]
        alone = [
            self._logits(one.encoded, [job])[0]
            for one, job in zip(singles, some, strict=True)
            if isinstance(one.encoded, EncodedPrompts)
        ]
        found = or_none(lambda: self._logits(encoded, some))
        return found is not None and all(
            relative_error(one, other) <= tolerance(self._runtime.model)
            for one, other in zip(found, alone, strict=True)
        )

    def _singles(
        self, batch: EncodedBatch, jobs: Sequence[J]
    ) -> Iterator[EncodedBatch]:
        prompts = [job.prompt for job in jobs]
        return self._runtime.batches.again(batch.numbers, prompts)

    @abstractmethod
    def _check(self, job: J, n_prompt: int) -> None:
        """Raise :class:`InvalidRequestError` if a job cannot run with a prompt of this
        length."""

    @abstractmethod
    def _logits(self, encoded: EncodedPrompts, jobs: Sequence[J]) -> list[Tensor]:
        """Logits of each job, to be compared."""

    @abstractmethod
    def _run(self, encoded: EncodedPrompts, jobs: Sequence[J]) -> list[Answer]:
        """Responses to a batch."""

    @abstractmethod
    def _errors(self, job: J, why: str) -> list[Answer]:
        """Error responses."""


def error_at(position: int, why: str) -> Answer:
    """An error response."""
    return position, Response(error=why)


_ALONE = (
    "requests with images run one by one: in a batch this model gives other numbers"
)
