"""Requests for texts, from prompts to responses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_evals.core.request import Generate, Response
from pytest_evals.models.hf.batches import Batch, Budget, in_batches
from pytest_evals.models.hf.generation import Text, Writer, Writing
from pytest_evals.models.hf.sampling import Recipe, check_config, recipe_of, seed_of
from pytest_evals.models.hf.scoring import NOT_A_NUMBER
from pytest_evals.models.hf.tokens import Encoder, Ids, Unusable

__all__ = ["Author"]


@dataclass(frozen=True, slots=True)
class _Job:
    """A text to write, and whose it is."""

    position: int
    writing: Writing
    n_prompt: int


class Author:
    """A model as a giver of texts."""

    def __init__(
        self,
        encoder: Encoder,
        writer: Writer,
        budget: Budget,
        max_length: int,
        config: Any,
    ) -> None:
        """``config`` is the model's ``generation_config``, ``max_length`` its window in
        tokens."""
        self._encoder = encoder
        self._writer = writer
        self._budget = budget
        self._max_length = max_length
        self._config = config

    def check(self) -> None:
        """Make sure that the model's own settings are all heeded.

        Raises:
            ModelError: It has a setting that is not known.
        """
        check_config(self._config)

    def answer(
        self, requests: Mapping[int, Generate]
    ) -> Iterator[tuple[int, Response]]:
        """Responses with the positions of their requests, as batches finish. A request
        with an option that is unknown or has a bad value is answered by an error."""
        groups: dict[Recipe, list[_Job]] = {}
        prompts = self._encoder.prompts([r.prompt for r in requests.values()])
        for (position, request), ids in zip(requests.items(), prompts, strict=True):
            recipe = recipe_of(request, self._config)
            if isinstance(recipe, Unusable):
                yield position, Response(error=str(recipe))
                continue
            job = self._job(position, request, ids)
            if isinstance(job, Unusable):
                yield position, Response(error=str(job))
            else:
                groups.setdefault(recipe, []).append(job)
        for recipe, jobs in groups.items():
            yield from self._answer_group(jobs, recipe)

    def _answer_group(
        self, jobs: list[_Job], recipe: Recipe
    ) -> Iterator[tuple[int, Response]]:
        # Rows of one limit together, for they may all run to it.
        jobs.sort(key=lambda j: (-j.writing.max_tokens, -len(j.writing.prompt)))
        batches = in_batches(
            jobs,
            [job.writing.cost * recipe.num_beams for job in jobs],
            lambda some: self._writer.write([job.writing for job in some], recipe),
            self._budget,
        )
        for batch in batches:
            yield from _responses(batch)

    def _job(
        self, position: int, request: Generate, ids: Ids | Unusable
    ) -> _Job | Unusable:
        if isinstance(ids, Unusable):
            return ids
        if request.max_tokens < 1:
            return Unusable(f"max_tokens is {request.max_tokens}; it must be 1 or more")
        room = self._max_length - request.max_tokens
        if room < 1:
            return Unusable(
                f"an answer of up to {request.max_tokens} tokens leaves no room for a "
                f"prompt in the model's window of {self._max_length}"
            )
        writing = Writing(
            prompt=ids[-room:],
            max_tokens=request.max_tokens,
            stop=tuple(stop for stop in request.stop if stop),
            seed=seed_of(request),
        )
        return _Job(position, writing, len(ids))


def _responses(batch: Batch[_Job, list[Text]]) -> Iterator[tuple[int, Response]]:
    share = batch.elapsed_s / len(batch.items)
    if isinstance(batch.result, Unusable):
        for job in batch.items:
            yield job.position, Response(error=str(batch.result), elapsed_s=share)
        return
    for job, text in zip(batch.items, batch.result, strict=True):
        if not text.sound:
            yield job.position, Response(error=NOT_A_NUMBER, elapsed_s=share)
            continue
        response = Response(
            text=text.text,
            n_prompt_tokens=job.n_prompt,
            n_tokens=text.n_tokens,
            n_truncated=job.n_prompt - len(job.writing.prompt),
            finish=text.finish,
            elapsed_s=share,
        )
        yield job.position, response
