"""Requests, tokens and cost of a run, before anything is sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pytest_evals.core.key import prompt_of
from pytest_evals.core.request import Generate, Request
from pytest_evals.core.run_plan import SpendPlan
from pytest_evals.models.http.usage import MILLION

_TOKEN_BYTES = 4
"""Bytes per token of a prompt, if nothing counts them."""
_BODY_BYTES = 150
"""Bytes of a request's body, without its prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpendLimits:
    """Prices per million tokens and spend caps of a model; 0 is none."""

    price_in: float = 0.0
    price_out: float = 0.0
    max_requests: int = 0
    max_cost: float = 0.0


def spend_plan_of(
    limits: SpendLimits,
    requests: Sequence[Request],
    counted: tuple[int, int] | None = None,
) -> SpendPlan:
    """The plan of a run. ``counted``: number of requests and of their prompts' tokens,
    by a tokenizer; by default each request is sent, and tokens are estimated."""
    n_requests, n_prompt_tokens = counted or (
        len(requests),
        round(sum(map(_bytes_of, requests)) / _TOKEN_BYTES),
    )
    texts = [one for one in requests if isinstance(one, Generate)]
    n_scored = n_requests - len(texts)
    has_prices = limits.price_in or limits.price_out
    return SpendPlan(
        n_requests=n_requests,
        n_prompt_tokens=n_prompt_tokens,
        is_counted=counted is not None,
        n_scored=n_scored,
        most_tokens=n_scored + sum(one.max_tokens for one in texts),
        most_each=max((_highest_cost(limits, one) for one in requests), default=0.0),
        prices=(limits.price_in, limits.price_out) if has_prices else None,
        max_requests=limits.max_requests,
        max_cost=limits.max_cost,
    )


def _highest_cost(limits: SpendLimits, request: Request) -> float:
    """About the highest cost of a request by its length, see
    :meth:`~pytest_evals.models.http.usage.Usage.most`."""
    n_in = _bytes_of(request) + _BODY_BYTES
    n_out = request.max_tokens if isinstance(request, Generate) else 1
    return (n_in * limits.price_in + n_out * limits.price_out) / MILLION


def _bytes_of(request: Request) -> int:
    prompt = prompt_of(request)
    if not isinstance(prompt, str):
        prompt = "".join(message.content for message in prompt)
    text = prompt + getattr(request, "continuation", "")
    return len(text.encode(errors="replace"))
