"""How an answer is to be sampled, in the words of the server."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from pytest_evals.core.request import (
    FITTING,
    GRAMMAR,
    IMAGES,
    LEADING_IMAGES,
    TOP_LOGPROBS,
    Generate,
)
from pytest_evals.core.top_logprobs import without_top_logprobs
from pytest_evals.errors import did_you_mean
from pytest_evals.models.openai.errors import RequestFailedError
from pytest_evals.models.openai.settings import OpenAISettings

RESPONSE_FORMAT = "response_format"
"""The option for a form that the answer is to have, as JSON text."""
OPTIONS = frozenset(
    {
        "frequency_penalty",
        "ignore_eos",
        "min_p",
        "min_tokens",
        "presence_penalty",
        "reasoning_effort",
        RESPONSE_FORMAT,
        "repetition_penalty",
        "seed",
        "skip_special_tokens",
        "stop_token_ids",
        "top_k",
        "top_p",
        "truncate_prompt_tokens",
        "typical_p",
        "verbosity",
    }
)
"""Options that are sent as they are: OpenAI's and vLLM's. Whether a server knows one
is for the server to say."""
_WITHOUT_EFFECT: Mapping[str, Any] = {
    "do_sample": None,
    "early_stopping": False,
    "length_penalty": 1.0,
    "no_repeat_ngram_size": 0,
    "num_beams": 1,
}
"""Options of transformers with the value that changes nothing; ``None`` for any."""
SEEDS = 2**31
"""Seeds of all servers are below."""


_ELSEWHERE = (IMAGES, LEADING_IMAGES, FITTING)
"""The first two belong to the messages; how much fits, only the server knows."""


def body_of(
    request: Generate, settings: OpenAISettings, *, chat: bool
) -> dict[str, Any]:
    """What a request says besides its prompt.

    Raises:
        Fault: An option does not exist here, or means nothing.
    """
    if request.max_tokens < 1:
        raise RequestFailedError(
            f"max_tokens is {request.max_tokens}; it must be 1 or more"
        )
    options = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in request.options
        if value is not None
        and name not in _ELSEWHERE
        and not _is_without_effect(name, value)
    }
    grammar = options.pop(GRAMMAR, None)
    top = _top_logprobs(options.pop(TOP_LOGPROBS, 0), chat=chat)
    held = {} if grammar is None else _held(json.loads(str(grammar)), settings)
    for name in options:
        if name not in OPTIONS:
            known = sorted(OPTIONS)
            hint = did_you_mean(name, known) or f"; known: {', '.join(known)}"
            raise RequestFailedError(
                f"the openai model has no generation option {name!r}{hint} "
                "(extra_body= sends anything)"
            )
    if isinstance(form := options.get(RESPONSE_FORMAT), str):
        options[RESPONSE_FORMAT] = _form(form)
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
    """The stop strings that the server is told.

    None if the model thinks in the text, since they must not end its thinking. One that
    contains another is left out: the other ends the text no later. The rest of them is
    cut here.
    """
    if settings.think_end_token:
        return []
    stops = list(dict.fromkeys(stop for stop in request.stop if stop))
    needed = [s for s in stops if not any(t in s for t in stops if t != s)]
    return needed[: settings.max_stops]


def _held(grammar: Mapping[str, Any], settings: OpenAISettings) -> dict[str, Any]:
    """The field that holds an answer to a schema, as OpenAI's API has it, or to a
    regular expression, as vLLM's has."""
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


def _form(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise RequestFailedError(f"response_format is no JSON: {text!r:.80}") from None


def _seed(request: Generate, given: Any) -> int:
    """One for each request, the same in every process; repeats of one prompt differ,
    also where the task gives a seed."""
    if isinstance(given, int):
        return (given + request.repeat) % SEEDS
    digest = hashlib.sha256(repr(without_top_logprobs(request)).encode()).digest()
    return int.from_bytes(digest[:8], "big") % SEEDS


def _is_without_effect(name: str, value: Any) -> bool:
    if name not in _WITHOUT_EFFECT:
        return False
    nothing = _WITHOUT_EFFECT[name]
    return nothing is None or value == nothing
