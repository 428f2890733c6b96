"""Requests, tokens and cost of a run against a server, before anything is sent."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_evals.core.key import prompt_of
from pytest_evals.core.request import Generate, Request
from pytest_evals.core.run_plan import SpendPlan
from pytest_evals.models.openai.settings import OpenAISettings, read_settings
from pytest_evals.models.spec import ModelSpec

TOKEN_BYTES = 4
"""Bytes per token of a prompt, if nothing counts them."""


def spend_plan(spec: ModelSpec, requests: Sequence[Request]) -> SpendPlan:
    """Plan these requests. The tokenizer is loaded if the spec has one.

    Raises:
        OptionError: The spec has a mistake.
        ModelError: The tokenizer cannot be loaded.
    """
    settings = read_settings(spec)
    n_requests, n_prompt_tokens = _prompts(settings, requests)
    texts = [one for one in requests if isinstance(one, Generate)]
    n_scored = n_requests - len(texts)
    most = n_scored + sum(one.max_tokens for one in texts)
    prices = (settings.price_in, settings.price_out) if _has_prices(settings) else None
    return SpendPlan(
        n_requests=n_requests,
        n_prompt_tokens=n_prompt_tokens,
        is_counted=bool(settings.tokenizer),
        n_scored=n_scored,
        most_tokens=most,
        prices=prices,
        max_requests=settings.max_requests,
        max_cost=settings.max_cost,
    )


def _has_prices(settings: OpenAISettings) -> bool:
    return bool(settings.price_in or settings.price_out)


def _prompts(settings: OpenAISettings, requests: Sequence[Request]) -> tuple[int, int]:
    """The number of requests that are sent, and of the tokens in their prompts."""
    if settings.tokenizer:
        from pytest_evals.models.openai.tokenizer import ServerTokenizer

        encoding = ServerTokenizer(settings.tokenizer, settings.template_args)
        return encoding.count(requests, settings.max_length)
    n_bytes = sum(map(_bytes_of, requests))
    return len(requests), round(n_bytes / TOKEN_BYTES)


def _bytes_of(request: Request) -> int:
    prompt = prompt_of(request)
    if not isinstance(prompt, str):
        prompt = "".join(message.content for message in prompt)
    text = prompt + getattr(request, "continuation", "")
    return len(text.encode(errors="replace"))
