"""Sampling parameters of vLLM for generation requests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from pytest_evals.core.request import (
    FITTING,
    GRAMMAR,
    IMAGE_OPTIONS,
    TOP_LOGPROBS,
    Generate,
)
from pytest_evals.errors import did_you_mean
from pytest_evals.models.engine.generation_options import (
    bad_value,
    seed_of,
    without_tools,
)
from pytest_evals.models.tokens.request_encoder import InvalidRequestError
from pytest_evals.models.vllm.engine import (
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
    options = without_tools(given)
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
    if not IMAGE_OPTIONS.isdisjoint(options):
        return (
            "this model reads texts, and the request shows images; an openai: model "
            "of a server that takes images can be asked"
        )
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
