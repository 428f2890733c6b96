"""Generation requests: from encoded prompts to responses."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from pytest_evals.core.request import (
    FITTING,
    GRAMMAR,
    IMAGE_OPTIONS,
    TOP_LOGPROBS,
    Finish,
    Generate,
    Request,
    Response,
    TopLogprobs,
)
from pytest_evals.errors import DocumentError, did_you_mean
from pytest_evals.models.engine.completions import completion_of
from pytest_evals.models.engine.generation_options import (
    DIGITS,
    bad_value,
    seed_of,
    without_tools,
)
from pytest_evals.models.images.processor import ImageProcessor
from pytest_evals.models.images.prompts import (
    ImageCache,
    ImagePrompt,
    ImagePrompts,
    max_new_tokens,
)
from pytest_evals.models.prefetch import AnswerBatches
from pytest_evals.models.prefix_order import prefix_order
from pytest_evals.models.tokens.encoder import Ids
from pytest_evals.models.tokens.request_encoder import (
    InvalidRequestError,
    RequestEncoder,
)
from pytest_evals.models.tokens.settings import ImageSettings
from pytest_evals.models.tokens.spans import fit_prompt
from pytest_evals.models.vllm.engine import (
    WAITING,
    EngineOutput,
    EngineRequest,
    VllmEngine,
    rejections,
    sampling_names,
    sampling_params,
    structured_outputs,
)
from pytest_evals.models.vllm.settings import NO_IMAGE_SCORES

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
_HERE = {"do_sample", "max_length", "response_format", FITTING, GRAMMAR, TOP_LOGPROBS}
"""Options that are not passed on."""
_SEEDS = 2**63


class SamplingInput(NamedTuple):
    """How to generate a completion."""

    request: Generate
    params: Any  # vLLM's ``SamplingParams``
    n_top: int  # Top tokens to return for each token


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
    given = options.get("structured_outputs")
    if not isinstance(given, Mapping):
        if GRAMMAR not in options:
            return {}
        grammar = json.loads(str(options[GRAMMAR]))
        given = {grammar["type"]: grammar["value"]}
    return {"structured_outputs": structured_outputs(**given)}


def _seed(request: Generate, given: Any) -> int:
    """The request's own seed; repeats of a prompt differ even if the task sets one."""
    seed = given + request.repeat if isinstance(given, int) else seed_of(request)
    return int(seed % _SEEDS)


def _plain(value: Any) -> Any:
    return [_plain(one) for one in value] if isinstance(value, tuple) else value


_FAILED = ("abort", "error")  # Finish reasons of requests that vLLM did not complete


@dataclass(slots=True, eq=False)
class VllmGeneration:
    """Answers generation requests.

    Tokens are decoded as by ``hf:`` models, so that texts are equal if tokens are.
    """

    engine: VllmEngine
    encoder: RequestEncoder
    think_end: str  # String, or id as digits, that ends the thinking; or empty
    n_cached: int = 0
    n_prompt: int = 0

    def answer(
        self, requests: Mapping[int, Generate], prompts: Mapping[int, Ids]
    ) -> AnswerBatches:
        """Responses with the positions of their requests, as sequences finish, those of
        a step together. ``requests``: the requests by position. ``prompts``: (T,) ids
        of the prompts of those that are to be answered."""
        jobs: dict[int, tuple[Ids, SamplingInput]] = {}
        for position, ids in prompts.items():
            request = requests[position]
            try:
                kept, limit = fit_prompt(request, len(ids), self.engine.max_length)
                jobs[position] = ids[len(ids) - kept :], self.sampling(request, limit)
            except InvalidRequestError as error:
                yield [(position, Response(error=str(error)))]
        positions = [*jobs]
        order = prefix_order([ids.tobytes() for ids, _ in jobs.values()])
        asked = (
            EngineRequest(p, jobs[p][0].tolist(), jobs[p][1].params)
            for p in (positions[i] for i in order)
        )

        def respond(one: EngineOutput, share: float) -> Response:
            kept, sampling = jobs[one.key]
            return self.response(sampling, one, share, len(kept), len(prompts[one.key]))

        yield from self.responses(asked, respond)

    def responses(
        self,
        asked: Iterable[EngineRequest],
        respond: Callable[[EngineOutput, float], Response],
        most: int = WAITING,
    ) -> AnswerBatches:
        """Run requests, at most so many at once. ``respond``: from an output and its
        share of the step in seconds to a response."""
        begun = time.perf_counter()
        for outputs in self.engine.run(asked, most):
            share = (time.perf_counter() - begun) / len(outputs)
            yield [
                (o.key, Response(error=o.error) if o.error else respond(o, share))
                for o in outputs
            ]
            begun = time.perf_counter()

    def sampling(self, request: Generate, max_tokens: int) -> SamplingInput:
        """How to generate, or ``InvalidRequestError`` for a wrong parameter."""
        given = {name: value for name, value in request.options if value is not None}
        options = {
            k: v for k, v in without_tools(given).items() if k not in IMAGE_OPTIONS
        }
        checked = {name: options.get(name) for name in ("do_sample", TOP_LOGPROBS)}
        problem = _unsupported(options) or bad_value(
            {**checked, "temperature": request.temperature}
        )
        if problem:
            raise InvalidRequestError(problem)
        draws = options.get("do_sample", True) and request.temperature > 0
        # They must not end the thinking (lm-eval 0.4.13, ``VLLM.generate_until``).
        stops = [] if self.think_end else [s for s in request.stop if s]
        n_top = options.get(TOP_LOGPROBS) or 0
        defaults = self.engine.default_sampling
        try:
            params = sampling_params(
                **{
                    **{k: v for k, v in defaults.items() if k != "max_tokens"},
                    **{k: _plain(v) for k, v in options.items() if k not in _HERE},
                    **_constraint(options),
                    "temperature": request.temperature if draws else 0.0,
                    "seed": _seed(request, options.get("seed")) if draws else None,
                    "max_tokens": max_tokens,
                    "stop": list(dict.fromkeys(stops)),
                    "logprobs": n_top or None,
                    "detokenize": bool(stops),
                    # A stop string may be the text of a special token.
                    "skip_special_tokens": False,
                }
            )
        except rejections() as error:
            why = " ".join(str(error).split())
            raise InvalidRequestError(
                f"vLLM rejects the sampling parameters: {why}"
            ) from None
        return SamplingInput(request, params, n_top)

    def response(
        self,
        sampling: SamplingInput,
        one: EngineOutput,
        share: float,
        n_sent: int,
        n_prompt: int,
    ) -> Response:
        """The response of a finished output, whose inference took ``share`` seconds.
        ``n_sent``: tokens of the prompt that were sent, of ``n_prompt``."""
        self.n_prompt += n_sent
        self.n_cached += one.output.num_cached_tokens or 0
        (completion,) = one.output.outputs
        if completion.finish_reason in _FAILED:
            why = f"vLLM ended the request: {completion.finish_reason}"
            return Response(error=why, elapsed_s=share)
        tokens, request = list(completion.token_ids), sampling.request
        ends = (self.encoder.end_id,)
        found = completion_of(self.encoder, request, tokens, ends, self.think_end)
        is_stopped = completion.finish_reason != "length" or found.is_cut
        finish: Finish = "stop" if is_stopped else "length"
        return Response(
            text=found.text,
            n_prompt_tokens=n_prompt,
            n_tokens=len(tokens),
            n_truncated=n_prompt - n_sent,
            finish=finish,
            elapsed_s=share,
            top_logprobs=self._top(tokens, completion.logprobs, sampling.n_top),
        )

    def _top(self, tokens: Sequence[int], rows: object, n: int) -> TopLogprobs:
        if not n or not isinstance(rows, list):
            return ()
        name = self.encoder.name_of
        found = []
        for token, row in zip(tokens, rows, strict=False):
            top = sorted(row.items(), key=lambda item: item[1].rank)[:n]
            values = ((name(i), round(one.logprob, DIGITS)) for i, one in top)
            found.append((name(token), tuple(values)))
        return tuple(found)


WAITING_IMAGES = 64  # Requests with images in the engine at once: it holds their pixels
_Jobs = Mapping[int, tuple[SamplingInput, ImagePrompt]]


class VllmImages:
    """Answers requests with images: vLLM's processor reads them and puts their tokens
    into the prompt."""

    def __init__(
        self, engine: VllmEngine, settings: ImageSettings, generation: VllmGeneration
    ) -> None:
        self._engine = engine
        self._settings = settings
        self._generation = generation
        self._cache = ImageCache(settings)
        self.notes: dict[str, None] = {}  # Warnings about the results so far

    def answer(self, requests: Mapping[int, Request]) -> AnswerBatches:
        """Responses with the positions of their requests, as sequences finish."""
        jobs: dict[int, tuple[SamplingInput, ImagePrompt]] = {}
        for position, request in requests.items():
            try:
                if not isinstance(request, Generate):
                    raise DocumentError(NO_IMAGE_SCORES)
                sampling = self._generation.sampling(request, request.max_tokens)
                jobs[position] = sampling, self._prompts.of(request)
            except DocumentError as error:
                yield [(position, Response(error=str(error)))]
        self.notes |= self._prompts.notes
        failed: dict[int, DocumentError] = {}

        def respond(one: EngineOutput, share: float) -> Response:
            return self._response(jobs[one.key][0], one, share)

        asked = self._asked(jobs, failed)
        yield from self._generation.responses(asked, respond, WAITING_IMAGES)
        yield [(i, Response(error=str(error))) for i, error in failed.items()]

    @cached_property
    def _processor(self) -> ImageProcessor:
        config = self._engine.config.model_config.hf_config
        return ImageProcessor(config, self._settings)

    @cached_property
    def _prompts(self) -> ImagePrompts:
        return self._processor.prompts()

    @cached_property
    def _start(self) -> str:
        return self._processor.added_start

    def _asked(
        self, jobs: _Jobs, failed: dict[int, DocumentError]
    ) -> Iterator[EngineRequest]:
        """Requests to the engine, whose images are decoded when it takes them."""
        for position, (sampling, prompt) in jobs.items():
            try:
                given = self._input(prompt)
            except DocumentError as error:
                failed[position] = error
                continue
            yield EngineRequest(position, [], sampling.params, given)

    def _input(self, prompt: ImagePrompt) -> Mapping[str, Any]:
        """vLLM's ``TextPrompt`` (vLLM 0.33, ``docs/features/multimodal_inputs.md``)."""
        images = self._cache.images(prompt.images)
        self._cache.keep([prompt.images])
        # vLLM adds the first token of every text.
        text = prompt.text.removeprefix(self._start) if prompt.is_bare else prompt.text
        found = {"prompt": text, "multi_modal_data": {"image": images}}
        limits = self._settings.pixel_limits
        return {**found, "mm_processor_kwargs": limits} if limits else found

    def _response(
        self, sampling: SamplingInput, one: EngineOutput, share: float
    ) -> Response:
        n = len(one.output.prompt_token_ids or ())
        try:
            max_new_tokens(sampling.request, n, self._engine.max_length)
        except DocumentError as error:
            return Response(error=str(error), elapsed_s=share)
        return self._generation.response(sampling, one, share, n, n)
