"""Generation requests: from encoded prompts to responses."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pytest_evals.core.request import (
    FITTING,
    GRAMMAR,
    IMAGE_OPTIONS,
    TOP_LOGPROBS,
    Finish,
    Generate,
    Response,
    TopLogprobs,
)
from pytest_evals.errors import did_you_mean
from pytest_evals.models.engine.completions import (
    answer_text,
    cut_at_stops,
    keeps_special_tokens,
)
from pytest_evals.models.engine.generation_options import (
    DIGITS,
    bad_value,
    seed_of,
    without_tools,
)
from pytest_evals.models.prefetch import Answer
from pytest_evals.models.prefix_order import prefix_order
from pytest_evals.models.tokens.encoder import Ids
from pytest_evals.models.tokens.request_encoder import (
    InvalidRequestError,
    RequestEncoder,
)
from pytest_evals.models.tokens.spans import fit_prompt
from pytest_evals.models.vllm.engine import (
    EngineOutput,
    EngineRequest,
    VllmEngine,
    rejections,
    sampling_names,
    sampling_params,
    structured_outputs,
)

_OURS = {
    "detokenize": "the tokenizer of the model decodes tokens here",
    "flat_logprobs": "use top_logprobs",
    "include_stop_str_in_output": "stop strings are never part of the answer",
    "logprob_token_ids": "use top_logprobs",
    "logprobs": "use top_logprobs",
    "max_tokens": "every request has its own limit",
    "n": "use repeats of the task",
    "output_kind": "the answer is the finished output",
    "output_text_buffer_length": "vLLM sets it itself",
    "prompt_logprob_start": "use log-likelihood requests",
    "prompt_logprob_token_ids": "use log-likelihood requests",
    "prompt_logprobs": "use log-likelihood requests",
    "skip_clone": "vLLM sets it itself",
    "skip_reading_prefix_cache": "vLLM sets it itself",
    "skip_special_tokens": "special tokens are never part of the answer",
    "stop": "until has the stop strings",
    "stream_interval": "the answer is the finished output",
}
"""Sampling parameters that requests cannot set, with the reason."""
_HERE = {
    "do_sample",
    "max_length",
    "response_format",
    FITTING,
    GRAMMAR,
    TOP_LOGPROBS,
}
"""Options that are not passed on."""
_SEEDS = 2**63


class SamplingInput(NamedTuple):
    """How to generate a completion."""

    params: Any  # vLLM's ``SamplingParams``
    stops: tuple[str, ...]  # The stop strings that the engine knows
    n_top: int  # Top tokens to return for each token


def sampling_input(
    request: Generate,
    max_tokens: int,
    defaults: Mapping[str, Any],
    *,
    thinks: bool,
) -> SamplingInput | InvalidRequestError:
    """The sampling parameters of a request, or why they are invalid.

    Args:
        max_tokens: Most new tokens.
        defaults: Parameters that the model's ``generation_config`` sets.
        thinks: Whether the completion begins with the model's thinking, which stop
            strings must not end (lm-eval 0.4.13, ``VLLM.generate_until``).
    """
    given = {name: value for name, value in request.options if value is not None}
    options = {k: v for k, v in without_tools(given).items() if k not in IMAGE_OPTIONS}
    checked = {name: options.get(name) for name in ("do_sample", TOP_LOGPROBS)}
    problem = _unsupported(options) or bad_value(
        {**checked, "temperature": request.temperature}
    )
    if problem:
        return InvalidRequestError(problem)
    draws = options.get("do_sample", True) and request.temperature > 0
    stops = () if thinks else tuple(dict.fromkeys(s for s in request.stop if s))
    n_top = options.get(TOP_LOGPROBS) or 0
    try:
        params = sampling_params(
            **{
                **{k: v for k, v in defaults.items() if k != "max_tokens"},
                **{k: _plain(v) for k, v in options.items() if k not in _HERE},
                **_constraint(options),
                "temperature": request.temperature if draws else 0.0,
                "seed": _seed(request, options.get("seed")) if draws else None,
                "max_tokens": max_tokens,
                "stop": list(stops),
                "logprobs": n_top or None,
                "detokenize": bool(stops),
                # A stop string may be the text of a special token.
                "skip_special_tokens": False,
            }
        )
    except rejections() as error:
        why = " ".join(str(error).split())
        return InvalidRequestError(f"vLLM rejects the sampling parameters: {why}")
    return SamplingInput(params, stops, n_top)


def _unsupported(options: Mapping[str, Any]) -> str:
    known = sampling_names()
    for name in options:
        if name in _OURS:
            return f"the vllm model takes no option {name!r}: {_OURS[name]}"
        if name not in known and name not in _HERE:
            hint = did_you_mean(name, [n for n in known if n not in _OURS])
            rest = hint or "; it takes vLLM's SamplingParams"
            return f"the vllm model has no generation option {name!r}{rest}"
    return ""


def _constraint(options: Mapping[str, Any]) -> dict[str, Any]:
    """The grammar of a request as vLLM's structured outputs."""
    given = options.get("structured_outputs")
    if isinstance(given, Mapping):
        return {"structured_outputs": structured_outputs(**given)}
    if GRAMMAR not in options:
        return {}
    grammar = json.loads(str(options[GRAMMAR]))
    return {
        "structured_outputs": structured_outputs(**{grammar["type"]: grammar["value"]})
    }


def _seed(request: Generate, given: Any) -> int:
    """The request's own seed; repeats of a prompt differ even if the task sets one."""
    if isinstance(given, int):
        return (given + request.repeat) % _SEEDS
    return seed_of(request) % _SEEDS


def _plain(value: Any) -> Any:
    return [_plain(one) for one in value] if isinstance(value, tuple) else value


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

    def sampling(
        self, request: Generate, max_tokens: int
    ) -> SamplingInput | InvalidRequestError:
        """How to generate a completion, or why a request is invalid."""
        return sampling_input(
            request,
            max_tokens,
            self._engine.default_sampling,
            thinks=bool(self._think_end),
        )

    def _job(self, request: Generate, ids: Ids) -> _Job | InvalidRequestError:
        budget = fit_prompt(request, len(ids), self._engine.max_length)
        if isinstance(budget, InvalidRequestError):
            return budget
        sampling = self.sampling(request, budget.max_tokens)
        if isinstance(sampling, InvalidRequestError):
            return sampling
        kept = ids[len(ids) - budget.n_prompt :]
        return _Job(request, kept, len(ids), sampling)

    def _response(self, job: _Job, one: EngineOutput, share: float) -> Response:
        if one.error:
            return Response(error=one.error)
        return self.response(
            job.request, job.sampling, one, share, (len(job.prompt), job.n_prompt)
        )

    def response(
        self,
        request: Generate,
        sampling: SamplingInput,
        one: EngineOutput,
        share: float,
        n_prompt: tuple[int, int],
    ) -> Response:
        """The response of a finished output, whose inference took ``share`` seconds.
        ``n_prompt``: tokens that were sent, and tokens of the whole prompt."""
        n_sent, n_whole = n_prompt
        self.n_prompt += n_sent
        self.n_cached += one.output.num_cached_tokens or 0
        (completion,) = one.output.outputs
        if completion.finish_reason in _FAILED:
            why = f"vLLM ended the request: {completion.finish_reason}"
            return Response(error=why, elapsed_s=share)
        tokens = list(completion.token_ids)
        specials = keeps_special_tokens(request)
        shown_tokens = tokens
        if specials and tokens[-1:] == [self._encoder.end_id]:
            shown_tokens = tokens[:-1]
        text = answer_text(
            self._encoder, shown_tokens, self._think_end, specials=specials
        ).text
        shown = cut_at_stops(text, (*request.stop, self._encoder.end_text))
        is_stopped = completion.finish_reason != "length" or shown != text
        finish: Finish = "stop" if is_stopped else "length"
        return Response(
            text=shown,
            n_prompt_tokens=n_whole,
            n_tokens=len(tokens),
            n_truncated=n_whole - n_sent,
            finish=finish,
            elapsed_s=share,
            top_logprobs=self._top(tokens, completion.logprobs, sampling.n_top),
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
