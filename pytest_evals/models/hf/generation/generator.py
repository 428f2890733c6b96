"""Requests for texts, from prompts as ids to responses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_evals.core.request import Generate, Response
from pytest_evals.models.hf.generation.engine import Text, Writer, Writing
from pytest_evals.models.hf.generation.options import check_config, slow_settings
from pytest_evals.models.hf.generation.sampling import Recipe, recipe_of, seed_of
from pytest_evals.models.hf.scoring.scorer import NOT_A_NUMBER
from pytest_evals.models.hf.tokenization.encoder import Ids
from pytest_evals.models.hf.tokenization.prompt_truncation import room_for
from pytest_evals.models.hf.tokenization.request_encoder import Unusable


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
        writer: Writer,
        max_length: int,
        config: Any,
    ) -> None:
        """``config`` is the model's ``generation_config``, ``max_length`` its window in
        tokens."""
        self._writer = writer
        self._max_length = max_length
        self._config = config

    def check(self) -> None:
        """Make sure that the model's own settings can all be heeded.

        Raises:
            ModelError: It has a setting that cannot.
        """
        check_config(self._config)

    def answer(
        self, requests: Mapping[int, Generate], prompts: Mapping[int, Ids]
    ) -> Iterator[tuple[int, Response]]:
        """Responses with the positions of their requests, as texts end. A request
        with an option that is unknown or has a bad value is answered by an error.

        Args:
            requests: What is asked, by position.
            prompts: (T,) ids of the prompts of those that are to be answered.
        """
        groups: dict[Recipe, list[_Job]] = {}
        slow = slow_settings(self._config)
        for position, ids in prompts.items():
            request = requests[position]
            recipe = recipe_of(request, self._config, slow)
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
        written = self._writer.write([job.writing for job in jobs], recipe)
        for number, text in written:
            yield jobs[number].position, _response(jobs[number], text)

    def _job(self, position: int, request: Generate, ids: Ids) -> _Job | Unusable:
        room = room_for(request, len(ids), self._max_length)
        if isinstance(room, Unusable):
            return room
        writing = Writing(
            prompt=ids[len(ids) - room.n_prompt :],
            max_tokens=room.max_tokens,
            stop=tuple(stop for stop in request.stop if stop),
            seed=seed_of(request),
        )
        return _Job(position, writing, len(ids))


def _response(job: _Job, text: Text | Unusable) -> Response:
    if isinstance(text, Unusable):
        return Response(error=str(text))
    if not text.sound:
        return Response(error=NOT_A_NUMBER, elapsed_s=text.elapsed_s)
    return Response(
        text=text.text,
        n_prompt_tokens=job.n_prompt,
        n_tokens=text.n_tokens,
        n_truncated=job.n_prompt - len(job.writing.prompt),
        finish=text.finish,
        elapsed_s=text.elapsed_s,
        top_logprobs=text.top_logprobs,
    )
