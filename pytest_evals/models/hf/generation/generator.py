"""Generation requests: from encoded prompts to responses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_evals.core.request import Generate, Response
from pytest_evals.models.engine.completions import keeps_special_tokens
from pytest_evals.models.engine.generation_options import (
    check_config,
    seed_of,
    slow_settings,
)
from pytest_evals.models.engine.scorer import NOT_A_NUMBER
from pytest_evals.models.hf.generation.engine import (
    GenerationEngine,
    GenerationInput,
    GenerationOutput,
)
from pytest_evals.models.hf.generation.sampling import (
    SamplingParams,
    sampling_params_of,
)
from pytest_evals.models.prefetch import Answer
from pytest_evals.models.tokens.encoder import Ids
from pytest_evals.models.tokens.request_encoder import InvalidRequestError
from pytest_evals.models.tokens.spans import fit_prompt


@dataclass(frozen=True, slots=True)
class _Job:
    """A generation input and its request."""

    position: int
    writing: GenerationInput
    n_prompt: int

    def response(self, text: GenerationOutput | InvalidRequestError) -> Response:
        n_truncated = self.n_prompt - len(self.writing.prompt)
        return response_of(text, self.n_prompt, n_truncated)


class Generator:
    """Answers generation requests."""

    def __init__(
        self,
        engine: GenerationEngine,
        max_length: int,
        config: Any,
    ) -> None:
        """``config`` is the model's ``generation_config``, ``max_length`` its context
        window in tokens."""
        self._engine = engine
        self._max_length = max_length
        self._config = config

    def check(self) -> None:
        """Check that all settings of the model's ``generation_config`` are supported.

        Raises:
            ModelError: It has a setting that cannot.
        """
        check_config(self._config)

    def answer(
        self, requests: Mapping[int, Generate], prompts: Mapping[int, Ids]
    ) -> Iterator[Sequence[Answer]]:
        """Responses with the positions of their requests, as sequences finish, those of
        a step together. Unknown options and invalid values give an error response.

        Args:
            requests: The requests by position.
            prompts: (T,) ids of the prompts of those that are to be answered.
        """
        groups: dict[SamplingParams, list[_Job]] = {}
        slow = slow_settings(self._config)
        for position, ids in prompts.items():
            request = requests[position]
            params = sampling_params_of(request, self._config, slow)
            if isinstance(params, InvalidRequestError):
                yield [(position, Response(error=str(params)))]
                continue
            job = self._job(position, request, ids)
            if isinstance(job, InvalidRequestError):
                yield [(position, Response(error=str(job)))]
            else:
                groups.setdefault(params, []).append(job)
        for params, jobs in groups.items():
            for written in self._engine.write([job.writing for job in jobs], params):
                yield [(jobs[n].position, jobs[n].response(x)) for n, x in written]

    def _job(
        self, position: int, request: Generate, ids: Ids
    ) -> _Job | InvalidRequestError:
        budget = fit_prompt(request, len(ids), self._max_length)
        if isinstance(budget, InvalidRequestError):
            return budget
        kept = ids[len(ids) - budget.n_prompt :]
        writing = generation_input(request, kept, budget.max_tokens)
        return _Job(position, writing, len(ids))


def generation_input(
    request: Generate, prompt: Ids, max_tokens: int
) -> GenerationInput:
    """The input of a request. ``prompt``: the (T,) ids that are kept."""
    return GenerationInput(
        prompt=prompt,
        max_tokens=max_tokens,
        stop=tuple(stop for stop in request.stop if stop),
        seed=seed_of(request),
        specials=keeps_special_tokens(request),
    )


def response_of(
    text: GenerationOutput | InvalidRequestError, n_prompt: int, n_truncated: int = 0
) -> Response:
    """The response of an output, or of the error. ``n_prompt``: tokens of the whole
    prompt, of which ``n_truncated`` were cut."""
    if isinstance(text, InvalidRequestError):
        return Response(error=str(text))
    if not text.finite:
        return Response(error=NOT_A_NUMBER, elapsed_s=text.elapsed_s)
    return Response(
        text=text.text,
        n_prompt_tokens=n_prompt,
        n_tokens=text.n_tokens,
        n_truncated=n_truncated,
        finish=text.finish,
        elapsed_s=text.elapsed_s,
        top_logprobs=text.top_logprobs,
    )
