"""Context window of a served model, from the server's model list, and advice for
requests that exceed it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pytest_evals.errors import ModelError
from pytest_evals.models.http.errors import RequestFailedError
from pytest_evals.models.http.retries import RetryingClient
from pytest_evals.models.openai.settings import OpenAISettings

_NAMES = (
    "max_model_len",  # vLLM, SGLang
    "loaded_context_length",  # LM Studio
    "context_length",  # OpenRouter, Together
    "max_context_length",  # Mistral
    "context_window",  # Groq
    "n_ctx",  # llama.cpp
)
"""Fields for the context window, by precedence. ``n_ctx_train`` is excluded: a server
may have a smaller window than the model was trained with."""
_TOO_LONG = re.compile(
    r"context[_ ](length|size|window)|(model|sequence|prompt|input) length"
    r"|max_tokens must be at least 1, got|(prompt|input|request)s? .*too long"
    r"|longer than the|inputs`? (tokens|must have)|max_model_len",
    re.IGNORECASE,
)
"""Error messages for requests that are too long: vLLM, SGLang, llama.cpp, TGI,
OpenAI."""
_LEAST, _MOST = 3, 2**31
_RETRIES = 2


async def window_of(client: RetryingClient, settings: OpenAISettings) -> int:
    """The context window from the settings or the server's model list; 0 if unknown.

    Errors are ignored, since a server need not list its models; an unreachable server
    is reported by the first request that needs a reply.
    """
    if settings.max_length:
        return settings.max_length
    try:
        return await client.ask(
            "models", {}, lambda reply: window_in(reply, settings.target), _RETRIES
        )
    except (RequestFailedError, ModelError):
        return 0


def length_advice(message: str, settings: OpenAISettings) -> str:
    """Advice to append to an error message; empty if the error is not about the
    request's length. ``message``: the beginning of the server's error message."""
    if not _TOO_LONG.search(message):
        return ""
    what = "; the prompt and the answer's limit exceed the server's context window"
    if settings.max_length and settings.api != "chat":
        return f"{what}, which is not max_length={settings.max_length}"
    ways = ["remove api=chat"] if settings.api == "chat" else []
    if settings.tokenizer:
        ways.append("pass max_length= (the window in tokens)")
    else:
        ways.append("pass tokenizer= (the served model's)")
    way = " and ".join(ways)
    return f"{what}: {way} to cut prompts as hf: does, or lower max_gen_toks"


def window_in(reply: Mapping[str, Any], model: str) -> int:
    """The context window of a model in a model list; 0 if unknown.

    Args:
        reply: ``data`` or ``models`` is a list of objects with an ``id``.
        model: The name. A model that is served under another name too, as an adapter
            is, has the window of all others if theirs are equal.
    """
    listed = reply.get("data") or reply.get("models")
    known: dict[str, int] = {}
    for entry in listed if isinstance(listed, list) else ():
        if isinstance(entry, dict) and (window := next(_windows(entry), 0)):
            known[str(entry.get("id"))] = window
    if model in known:
        return known[model]
    return known.popitem()[1] if len(set(known.values())) == 1 else 0


def _windows(entry: Mapping[str, Any]) -> Iterator[int]:
    """All context windows in an entry of a model list."""
    meta = entry.get("meta")
    for place in (entry, meta if isinstance(meta, dict) else {}):
        for name in _NAMES:
            value = place.get(name)
            if type(value) is int and _LEAST <= value < _MOST:
                yield value
