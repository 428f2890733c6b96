"""Batches of prompts with images: decoded and processed in a thread, one batch ahead of
the model, and released after it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

from pytest_evals.errors import DocumentError
from pytest_evals.models.images.image_cache import ImageCache
from pytest_evals.models.images.processor import EncodedPrompts, ImageProcessor
from pytest_evals.models.images.prompts import ImagePrompt
from pytest_evals.models.images.settings import ImageSettings


class EncodedBatch(NamedTuple):
    """Some prompts by their numbers, with their tensors; or a prompt's error."""

    numbers: Sequence[int]
    encoded: EncodedPrompts | DocumentError


class ImageBatches:
    """Encodes prompts with images."""

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
