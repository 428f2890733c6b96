"""Sampling parameters in request bodies."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from pytest_evals.core.request import (
    FITTING,
    GRAMMAR,
    IMAGE_OPTIONS,
    RESPONSE_FORMAT,
    TOOLS,
    TOP_LOGPROBS,
    Generate,
)
from pytest_evals.core.top_logprobs import without_top_logprobs
from pytest_evals.errors import suggestion
from pytest_evals.models.http.errors import RequestFailedError
from pytest_evals.models.openai.settings import OpenAISettings

OPTIONS = frozenset(
    {
        *("frequency_penalty", "ignore_eos", "min_p", "min_tokens"),
        *("parallel_tool_calls", "presence_penalty", "reasoning_effort"),
        *(RESPONSE_FORMAT, "repetition_penalty", "seed", "skip_special_tokens"),
        *("stop_token_ids", "tool_choice", TOOLS, "top_k", "top_p"),
        *("truncate_prompt_tokens", "typical_p", "verbosity"),
    }
)
"""Options that are passed on unchanged: OpenAI's and vLLM's. The server decides whether
it supports them."""
_WITHOUT_EFFECT: Mapping[str, Any] = {
    "do_sample": None,
    "early_stopping": False,
    "length_penalty": 1.0,
    "no_repeat_ngram_size": 0,
    "num_beams": 1,
}
"""Options of transformers with the value that has no effect; ``None`` for any."""
SEEDS = 2**31  # Upper limit of seeds on all servers


def body_of(
    request: Generate, settings: OpenAISettings, *, chat: bool
) -> dict[str, Any]:
    """Parameters of a request other than its prompt; ``RequestFailedError`` if an
    option does not exist here, or means nothing."""
    if request.max_tokens < 1:
        raise RequestFailedError(
            f"max_tokens is {request.max_tokens}; it must be 1 or more"
        )
    options = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in request.options
        if value is not None
        and name not in (*IMAGE_OPTIONS, FITTING)  # in the messages; only hf: knows it
        and not (name in _WITHOUT_EFFECT and _WITHOUT_EFFECT[name] in (None, value))
    }
    grammar = options.pop(GRAMMAR, None)
    top = _top_logprobs(options.pop(TOP_LOGPROBS, 0), chat=chat)
    held = {} if grammar is None else _held(json.loads(str(grammar)), settings)
    if unknown := [name for name in options if name not in OPTIONS]:
        hint = suggestion(unknown[0], sorted(OPTIONS))
        raise RequestFailedError(
            f"the openai model has no generation option {unknown[0]!r}{hint} "
            "(extra_body= sends anything)"
        )
    for name in (RESPONSE_FORMAT, TOOLS):
        if isinstance(text := options.get(name), str):
            try:
                options[name] = json.loads(text)
            except (ValueError, RecursionError):
                message = f"{name} is not JSON: {text!r:.80}"
                raise RequestFailedError(message) from None
    seed = options.pop("seed", None)
    # OpenAI has given max_tokens up for chats, and other servers know nothing else.
    new_name = chat and (settings.is_openai or settings.thinks)
    body = {"max_completion_tokens" if new_name else "max_tokens": request.max_tokens}
    if not settings.thinks:
        body["temperature"] = request.temperature  # type: ignore[assignment]
        stops = sent_stops(request, settings)
        if stops:
            body["stop"] = stops  # type: ignore[assignment]
    if settings.send_seed and request.temperature > 0 and not settings.thinks:
        body["seed"] = _seed(request, seed)
    return {**body, **options, **held, **top}


def sent_stops(request: Generate, settings: OpenAISettings) -> list[str]:
    """Stop strings that are sent to the server.

    None if the model thinks in its completion, since they must not end its thinking. A
    string that contains another one is left out, since the other stops no later. The
    remaining ones are applied on the client.
    """
    if settings.think_end_token:
        return []
    stops = list(dict.fromkeys(stop for stop in request.stop if stop))
    needed = [s for s in stops if not any(t in s for t in stops if t != s)]
    return needed[: settings.max_stops]


def _held(grammar: Mapping[str, Any], settings: OpenAISettings) -> dict[str, Any]:
    """Parameter that constrains the completion to a JSON schema (OpenAI) or a regular
    expression (vLLM)."""
    if grammar["type"] == "json":
        schema = {"name": "answer", "schema": grammar["value"], "strict": True}
        return {RESPONSE_FORMAT: {"type": "json_schema", "json_schema": schema}}
    if settings.is_openai:
        raise RequestFailedError(
            "OpenAI's models cannot be held to a regular expression"
        )
    return {"structured_outputs": {"regex": grammar["value"]}}


def _top_logprobs(n: Any, *, chat: bool) -> dict[str, Any]:
    if type(n) is not int or n < 0:
        raise RequestFailedError(
            f"{TOP_LOGPROBS} is {n!r}; it must be a whole number, 0 or more"
        )
    if not n:
        return {}
    return {"logprobs": True, TOP_LOGPROBS: n} if chat else {"logprobs": n}


def _seed(request: Generate, given: Any) -> int:
    """One seed per request, equal in every process; repeats of a prompt differ, even if
    the task sets a seed."""
    if isinstance(given, int):
        return (given + request.repeat) % SEEDS
    digest = hashlib.sha256(repr(without_top_logprobs(request)).encode()).digest()
    return int.from_bytes(digest[:8], "big") % SEEDS
