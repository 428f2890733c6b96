"""Responses to requests with images: generations, and scores of continuations."""

from __future__ import annotations

import inspect
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from transformers import LogitsProcessor

from pytest_evals.core.request import (
    Generate,
    ImageLoglikelihood,
    Loglikelihood,
    Request,
    Response,
)
from pytest_evals.errors import DocumentError
from pytest_evals.models.engine.generation_options import slow_settings
from pytest_evals.models.engine.scorer import NOT_A_NUMBER
from pytest_evals.models.hf.forward import LogitsChunk, relative_error, tolerance
from pytest_evals.models.hf.generation.engine import GenerationEngine, GenerationJob
from pytest_evals.models.hf.generation.sampling import (
    SamplingParams,
    sampling_params_of,
)
from pytest_evals.models.hf.images.runner import BatchRunner, ImageRuntime
from pytest_evals.models.hf.scoring.padded_strategy import (
    SpanTargets,
    batch_targets,
    sum_logprobs,
)
from pytest_evals.models.images.processor import IDS, MASK, EncodedPrompts, on_device
from pytest_evals.models.images.prompts import ImagePrompt, max_new_tokens
from pytest_evals.models.prefetch import Answer, AnswerBatches
from pytest_evals.models.tokens.request_encoder import InvalidRequestError

FILLS = (0, 1)  # Values of further tensors for the tokens of a continuation
N_TRIED = 4  # Tokens of the continuation in self-tests
Ids = Sequence[int]
Fill = Mapping[str, int]


class ContextJob(NamedTuple):
    """Continuations of a context that differ in their last token only."""

    prompt: ImagePrompt
    members: list[tuple[int, list[int]]]  # Positions of requests, ids of continuations

    @property
    def ids(self) -> list[int]:
        """A continuation; its last token is not read by the model."""
        return self.members[0][1]

    @property
    def positions(self) -> list[int]:
        """The positions of the requests."""
        return [position for position, _ in self.members]


class ContinuationRunner(BatchRunner[ContextJob]):
    """Computes log-probabilities of continuations.

    The processor encodes the context and its images only; the ids of the continuation
    are appended to the tensors that have a value for each token. What such a tensor has
    for the tokens of a continuation depends on the model, so values are tried out
    against generation that is forced to the same tokens; if none is right, that is used
    instead.
    """

    def __init__(self, runtime: ImageRuntime) -> None:
        super().__init__(runtime)
        forward = inspect.signature(runtime.model.forward)
        self._keeps = "logits_to_keep" in forward.parameters
        self._is_chosen = False
        self._fill: Fill | None = None
        """The value of each further tensor for tokens of a continuation; ``None`` for
        forced generation."""

    def _check(self, job: ContextJob, n_prompt: int) -> None:
        window = self._runtime.loaded.max_length
        if n_prompt + len(job.ids) - 1 > window:
            raise InvalidRequestError(
                f"the context has {n_prompt} tokens, images included, and the "
                f"continuation {len(job.ids)}; the model's window has {window}\n"
                "  fix: set max_pixels or image_max_side"
            )

    def _tested(self, jobs: Sequence[ContextJob], encoded: EncodedPrompts) -> bool:
        first = next(self._singles(jobs)).encoded
        if isinstance(first, EncodedPrompts):
            self._choose(first, jobs[0].ids)
        return self._fill is not None and super()._tested(jobs, encoded)

    def _logits(
        self, encoded: EncodedPrompts, jobs: Sequence[ContextJob]
    ) -> list[Tensor]:
        """(N, V) float32 of each job: the logits of its continuation's tokens."""
        if len(jobs) == 1:
            self._choose(encoded, jobs[0].ids)
        if self._fill is None:
            return [self._forced(encoded, jobs[0].ids)]
        return self._in_one_pass(encoded, [job.ids for job in jobs], self._fill)

    def _run(self, encoded: EncodedPrompts, jobs: Sequence[ContextJob]) -> list[Answer]:
        begun = time.perf_counter()
        found = self._logits(encoded, jobs)
        share = (time.perf_counter() - begun) / sum(len(job.members) for job in jobs)
        rows = zip(jobs, found, encoded.lengths, strict=True)
        return [
            answer
            for job, logits, n in rows
            for answer in _scored(job, logits, n, share)
        ]

    def _choose(self, encoded: EncodedPrompts, ids: Ids) -> None:
        """Choose once, with a single prompt, how logits are computed."""
        if self._is_chosen:
            return
        self._is_chosen = True
        tokens = ([*ids] * N_TRIED)[:N_TRIED]
        expected = self._forced(encoded, tokens)
        names = sorted(encoded.of_tokens().keys() - {IDS, MASK})
        best = tolerance(self._runtime.model)
        for values in product(FILLS, repeat=len(names)):
            fill = dict(zip(names, values, strict=True))
            try:
                (found,) = self._in_one_pass(encoded, [tokens], fill)
            except _REFUSALS:
                continue
            error = relative_error(found, expected)
            if error < best:
                best, self._fill = error, fill
        if self._fill is None:
            self._may_batch = False
            self._runtime.notes[_FORCED] = None

    @torch.inference_mode()
    def _in_one_pass(
        self, encoded: EncodedPrompts, ids: Sequence[Ids], fill: Fill
    ) -> list[Tensor]:
        starts = [n - 1 for n in encoded.lengths]
        spans = [range(n, n + len(one)) for n, one in zip(starts, ids, strict=True)]
        kept = sorted({place for span in spans for place in span})
        model = self._runtime.model
        options: dict[str, Any] = {}
        if self._keeps:
            options = {"logits_to_keep": torch.tensor(kept, device=model.device)}
        inputs = {**encoded.tensors, **self._extended(encoded, ids, fill)}
        placed = on_device(inputs, model.device, model.dtype)
        found = model(**placed, use_cache=False, **options).logits
        at = {place: i for i, place in enumerate(kept)} if self._keeps else None
        return [
            found[row, [place if at is None else at[place] for place in span]].float()
            for row, span in enumerate(spans)
        ]

    def _extended(
        self, encoded: EncodedPrompts, ids: Sequence[Ids], fill: Fill
    ) -> dict[str, Tensor]:
        """The tensors with a value for each token, with continuations, padded on the
        right: positions then begin at 0 in each row."""
        known, lengths = encoded.tensors[MASK].bool(), encoded.lengths
        width = max(n + len(one) - 1 for n, one in zip(lengths, ids, strict=True))
        made = {}
        for name, values in encoded.of_tokens().items():
            padding = self._runtime.processor.pad_id if name == IDS else 0
            rows = values.new_full((len(values), width), padding)
            for row, (n, one) in enumerate(zip(lengths, ids, strict=True)):
                rows[row, :n] = values[row][known[row]]
                tail = rows[row, n : n + len(one) - 1]
                if name == IDS:
                    tail.copy_(torch.as_tensor([*one[:-1]], dtype=rows.dtype))
                else:
                    tail.fill_(1 if name == MASK else fill[name])
            made[name] = rows
        return made

    def _forced(self, encoded: EncodedPrompts, ids: Ids) -> Tensor:
        forced = _Forced(ids, encoded.tensors[IDS].shape[1])
        return torch.cat(self._runtime.logits(encoded, len(ids), forced))


class _Forced(LogitsProcessor):
    """Allows one token at each step."""

    def __init__(self, ids: Ids, n_prompt: int) -> None:
        self._ids = ids
        self._n_prompt = n_prompt

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        allowed = self._ids[input_ids.shape[1] - self._n_prompt]
        found = torch.full_like(scores, -torch.inf)
        found[:, allowed] = 0.0
        return found


def _scored(
    job: ContextJob, logits: Tensor, n_prompt: int, elapsed_s: float
) -> Iterator[Answer]:
    """Responses to all continuations of a context, of its (N, V) logits."""
    places = np.arange(len(logits))
    spots = [
        SpanTargets(position, places, np.asarray(ids, np.int32))
        for position, ids in job.members
    ]
    chunk = LogitsChunk(0, logits)
    scores = sum_logprobs(batch_targets(spots), lambda _: [chunk])
    for position, ids in job.members:
        score = scores[position]
        if not score.finite:
            yield position, Response(error=NOT_A_NUMBER, elapsed_s=elapsed_s)
            continue
        yield (
            position,
            Response(
                logprob=score.logprob,
                greedy=score.greedy,
                n_prompt_tokens=n_prompt,
                n_tokens=len(ids),
                elapsed_s=elapsed_s,
            ),
        )


_REFUSALS = (IndexError, KeyError, RuntimeError, StopIteration, TypeError, ValueError)
"""Exceptions of models for values that they do not expect."""
_FORCED = (
    "choices after images are scored token by token, which is slow: in one pass this "
    "model gives other numbers"
)


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

    def answer(self, requests: Mapping[int, Request]) -> AnswerBatches:
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
