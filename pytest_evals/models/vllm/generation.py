"""Generation requests: from encoded prompts to responses."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pytest_evals.core.request import Finish, Generate, Response, TopLogprobs
from pytest_evals.models.engine.generation_options import DIGITS
from pytest_evals.models.engine.stop_strings import answer_text, cut_at_stops
from pytest_evals.models.engine.tool_replies import keeps_special_tokens
from pytest_evals.models.prefetch import Answer
from pytest_evals.models.prefix_order import prefix_order
from pytest_evals.models.tokens.encoder import Ids
from pytest_evals.models.tokens.prompt_truncation import fit_prompt
from pytest_evals.models.tokens.request_encoder import (
    InvalidRequestError,
    RequestEncoder,
)
from pytest_evals.models.vllm.engine import EngineOutput, EngineRequest, VllmEngine
from pytest_evals.models.vllm.sampling import SamplingInput, sampling_input

_FAILED = ("abort", "error")
"""Finish reasons of vLLM for requests that it did not complete."""


@dataclass(frozen=True, slots=True)
class _Job:
    """A request with its prompt."""

    request: Generate
    prompt: Ids  # (T,) ids that are sent
    n_prompt: int  # Tokens of the whole prompt
    sampling: SamplingInput


class VllmGeneration:
    """Answers generation requests.

    Tokens are decoded as by ``hf:`` models, so that texts are equal if tokens are.
    """

    def __init__(
        self, engine: VllmEngine, encoder: RequestEncoder, think_end: str
    ) -> None:
        """``think_end`` is the string, or the id as digits, that ends the model's
        thinking; empty for none."""
        self._engine = engine
        self._encoder = encoder
        self._think_end = think_end
        self.n_cached = self.n_prompt = 0

    def answer(
        self, requests: Mapping[int, Generate], prompts: Mapping[int, Ids]
    ) -> Iterator[Sequence[Answer]]:
        """Responses with the positions of their requests, as sequences finish, those of
        a step together.

        Args:
            requests: The requests by position.
            prompts: (T,) ids of the prompts of those that are to be answered.
        """
        jobs: dict[int, _Job] = {}
        for position, ids in prompts.items():
            job = self._job(requests[position], ids)
            if isinstance(job, InvalidRequestError):
                yield [(position, Response(error=str(job)))]
            else:
                jobs[position] = job
        positions = [*jobs]
        order = prefix_order([jobs[p].prompt.tobytes() for p in positions])
        asked = (
            EngineRequest(p, jobs[p].prompt.tolist(), jobs[p].sampling.params)
            for p in (positions[i] for i in order)
        )
        begun = time.perf_counter()
        for outputs in self._engine.run(asked):
            share = (time.perf_counter() - begun) / len(outputs)
            yield [(o.key, self._response(jobs[o.key], o, share)) for o in outputs]
            begun = time.perf_counter()

    def _job(self, request: Generate, ids: Ids) -> _Job | InvalidRequestError:
        budget = fit_prompt(request, len(ids), self._engine.max_length)
        if isinstance(budget, InvalidRequestError):
            return budget
        sampling = sampling_input(
            request,
            budget.max_tokens,
            self._engine.default_sampling,
            thinks=bool(self._think_end),
        )
        if isinstance(sampling, InvalidRequestError):
            return sampling
        kept = ids[len(ids) - budget.n_prompt :]
        return _Job(request, kept, len(ids), sampling)

    def _response(self, job: _Job, one: EngineOutput, share: float) -> Response:
        if one.error:
            return Response(error=one.error)
        self.n_prompt += len(job.prompt)
        self.n_cached += one.output.num_cached_tokens or 0
        (completion,) = one.output.outputs
        if completion.finish_reason in _FAILED:
            why = f"vLLM ended the request: {completion.finish_reason}"
            return Response(error=why, elapsed_s=share)
        tokens = list(completion.token_ids)
        specials = keeps_special_tokens(job.request)
        shown_tokens = tokens
        if specials and tokens[-1:] == [self._encoder.end_id]:
            shown_tokens = tokens[:-1]
        text = answer_text(
            self._encoder, shown_tokens, self._think_end, specials=specials
        ).text
        shown = cut_at_stops(text, (*job.request.stop, self._encoder.end_text))
        is_stopped = completion.finish_reason != "length" or shown != text
        finish: Finish = "stop" if is_stopped else "length"
        return Response(
            text=shown,
            n_prompt_tokens=job.n_prompt,
            n_tokens=len(tokens),
            n_truncated=job.n_prompt - len(job.prompt),
            finish=finish,
            elapsed_s=share,
            top_logprobs=self._top(tokens, completion.logprobs, job.sampling.n_top),
        )

    def _top(self, tokens: Sequence[int], rows: object, n: int) -> TopLogprobs:
        """The ``n`` likeliest tokens for each generated one."""
        if not n or not isinstance(rows, list):
            return ()
        name = self._encoder.name_of
        found = []
        for token, row in zip(tokens, rows, strict=False):
            top = sorted(row.items(), key=lambda item: item[1].rank)[:n]
            values = ((name(i), round(one.logprob, DIGITS)) for i, one in top)
            found.append((name(token), tuple(values)))
        return tuple(found)
