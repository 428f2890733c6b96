"""Generation after prompts with images, by transformers' ``generate``.

Greedy completions run in batches; sampling and beam search run one request at a time,
so that results do not depend on the batch. Prompts are never truncated: images would be
cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from torch import Tensor

from pytest_evals.core.request import Generate
from pytest_evals.models.hf.generation.engine import GenerationEngine
from pytest_evals.models.hf.generation.generator import generation_input, response_of
from pytest_evals.models.hf.generation.sampling import SamplingParams
from pytest_evals.models.hf.images.runner import BatchRunner, ImageRuntime, error_at
from pytest_evals.models.images.processor import IDS, EncodedPrompts
from pytest_evals.models.images.prompts import ImagePrompt, max_new_tokens
from pytest_evals.models.prefetch import Answer


class TextJob(NamedTuple):
    """A text to generate."""

    position: int
    request: Generate
    prompt: ImagePrompt
    params: SamplingParams


class TextRunner(BatchRunner[TextJob]):
    """Generates texts. The jobs of a call have equal sampling parameters."""

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
        writings = [
            generation_input(job.request, row[len(row) - n :], self._limit(job, n))
            for job, row, n in zip(jobs, ids, lengths, strict=True)
        ]
        inputs = self._runtime.placed(encoded)
        texts = self._engine.write_batch(writings, inputs, jobs[0].params)
        return [
            (job.position, response_of(text, n))
            for job, text, n in zip(jobs, texts, lengths, strict=True)
        ]

    def _errors(self, job: TextJob, why: str) -> list[Answer]:
        return [error_at(job.position, why)]
