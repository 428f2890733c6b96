"""Usage: requests, tokens and cost, planned before anything is sent and counted then.
The report formats the counts, since those of several workers are added up."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from pytest_evals.core.key import prompt_of
from pytest_evals.core.latency import Timings
from pytest_evals.core.request import Generate, Request
from pytest_evals.core.response_contract import MAX_COUNT
from pytest_evals.core.run_plan import SpendPlan

MILLION = 1_000_000
_COUNTS = ("requests", "replies", "retries", "prompt_tokens", "completion_tokens")
IMAGE_TOKENS = 4096  # Assumed maximum for an image


@dataclass(slots=True)
class RequestMeter:
    """Latency and cost of one request, over all its attempts."""

    latency_s: float = 0.0
    """Seconds from sending until the reply was there, of replies that could be used;
    pauses and queues are not in it."""
    cost: float | None = None
    """Price of all replies, ``None`` without prices, or if tokens are missing."""
    is_complete: bool = True

    def pay(self, cost: float, *, is_known: bool) -> None:
        """Add the cost of a reply."""
        self.is_complete &= is_known
        self.cost = (self.cost or 0.0) + cost if self.is_complete else None


METER: ContextVar[RequestMeter | None] = ContextVar("METER", default=None)
"""The meter of the current request."""


class Usage:
    """Usage of a model; written by one thread."""

    def __init__(
        self,
        price_in: float,
        price_out: float,
        extra_body: Mapping[str, Any] = MappingProxyType({}),
        no_first_token: str = "",
    ) -> None:
        """Create counts of 0. Prices are per million tokens, 0 if unknown.
        ``no_first_token``: why the latency to the first token is unknown."""
        self._prices = (price_in, price_out)
        self._extra_body = extra_body
        self.shown: dict[str, Any] = dict.fromkeys(_COUNTS, 0)
        """The current counts as JSON values."""
        if any(self._prices):
            self.shown["cost"] = 0.0
        self.timings = Timings(self.shown, no_first_token)

    @property
    def n_replies(self) -> int:
        """Number of usable replies."""
        return int(self.shown["replies"])

    def sent(self, retry_reason: str = "") -> None:
        """Count a sent request. ``retry_reason`` is empty for the first attempt."""
        self.shown["requests"] += 1
        if retry_reason:
            self.shown["retries"] += 1
            reasons = self.shown.setdefault("retried", {})
            reasons[retry_reason] = reasons.get(retry_reason, 0) + 1

    def replied(self) -> None:
        """Count a usable reply."""
        self.shown["replies"] += 1

    def count(self, reply: Mapping[str, Any]) -> float | None:
        """Add the tokens of a reply, even if it is unusable; return its cost, ``None``
        if that is unknown."""
        self._name(reply.get("model"))
        n_in, n_out = tokens_of(reply)
        self.shown["prompt_tokens"] += n_in
        self.shown["completion_tokens"] += n_out
        if "cost" not in self.shown:
            return None
        cost, is_known = self._price(n_in, n_out), _has_counts(reply)
        self.shown["cost"] += cost
        meter = METER.get()
        if meter is not None:
            meter.pay(cost, is_known=is_known)
        return cost if is_known else None

    def cost_is_unknown(self) -> None:
        """Count a sent request without a reply, or whose reply has no token counts."""
        if "cost" in self.shown:
            n = self.shown.get("requests_of_unknown_cost", 0)
            self.shown["requests_of_unknown_cost"] = n + 1

    def _name(self, model: Any) -> None:
        if not isinstance(model, str) or not model:
            return
        names, name = self.shown.setdefault("replied_as", {}), model[:_LONGEST]
        if name in names or len(names) < _NAMES:
            names[name] = names.get(name, 0) + 1

    def most(self, body: Mapping[str, Any]) -> float:
        """The highest cost of a request: a token has a byte at least. 0 if unpriced."""
        if not any(self._prices):
            return 0.0
        body = {**body, **self._extra_body}
        ids = body.get("prompt")
        if isinstance(ids, list):
            n_in = len(ids)
        else:
            text = json.dumps(body, ensure_ascii=False)
            bare, n_images = _IMAGE.subn("", text)
            n_in = len(bare.encode(errors="replace")) + n_images * IMAGE_TOKENS
        limits = (body.get("max_tokens"), body.get("max_completion_tokens"))
        n_out = max(map(count_of, limits))
        return self._price(n_in, n_out * max(1, count_of(body.get("n"))))

    def _price(self, n_in: int, n_out: int) -> float:
        price_in, price_out = self._prices
        return (n_in * price_in + n_out * price_out) / MILLION


_NAMES, _LONGEST = 8, 200
"""Maximum of model names that are counted, and of their length."""
_REASONING = ("reasoning_content", "reasoning", "thinking", "reasoning_details")
"""Fields of a message with its reasoning (vLLM and SGLang; OpenRouter and Ollama)."""
_IMAGE = re.compile(r'"data:[^"]*"')


def _has_counts(reply: Mapping[str, Any]) -> bool:
    """Whether a reply reports its prompt and completion tokens."""
    default = None if embedding_in(reply) is None else 0  # no tokens are generated
    n_out = object_at(reply, "usage").get("completion_tokens", default)
    return tokens_of(reply)[0] > 0 and type(n_out) is int and n_out >= 0


def embedding_in(reply: Mapping[str, Any]) -> Any:
    """The first embedding in a reply, ``None`` without one."""
    listed = reply.get("data")
    first = listed[0] if isinstance(listed, list) and listed else None
    return first.get("embedding") if isinstance(first, dict) else None


def object_at(found: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """The JSON object at a key; empty without one."""
    value = found.get(key)
    return value if isinstance(value, dict) else {}


def tokens_of(reply: Mapping[str, Any]) -> tuple[int, int]:
    """Tokens of prompt and completion; 0 if not reported."""
    usage = object_at(reply, "usage")
    n_in, n_out = usage.get("prompt_tokens"), usage.get("completion_tokens")
    return count_of(n_in), count_of(n_out)


def hidden_tokens_of(reply: Mapping[str, Any]) -> int:
    """Tokens of reasoning that is counted, but not part of the reply."""
    details = object_at(object_at(reply, "usage"), "completion_tokens_details")
    choices = reply.get("choices")
    if not isinstance(choices, list):
        return 0
    messages = (object_at(one, "message") for one in choices if isinstance(one, dict))
    is_shown = any(map(has_reasoning, messages))
    return 0 if is_shown else count_of(details.get("reasoning_tokens"))


def has_reasoning(message: Mapping[str, Any]) -> bool:
    """Whether a message has reasoning, in a field or in its content (Mistral)."""
    parts = message.get("content")
    listed = parts if isinstance(parts, list) else ()
    kinds = [one.get("type") for one in listed if isinstance(one, Mapping)]
    given = [message.get(name) for name in _REASONING]
    return bool({"reasoning", "thinking"}.intersection(map(str, kinds))) or any(
        one.strip() if isinstance(one, str) else one for one in given
    )


def count_of(value: Any) -> int:
    """A token count in a reply; 0 if missing or invalid."""
    return value if type(value) is int and 0 < value < MAX_COUNT else 0


_TOKEN_BYTES = 4  # Bytes per token of a prompt, if nothing counts them
_BODY_BYTES = 150  # Bytes of a request's body, without its prompt


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
    """About the highest cost of a request by its length, see :meth:`Usage.most`."""
    n_in = _bytes_of(request) + _BODY_BYTES
    n_out = request.max_tokens if isinstance(request, Generate) else 1
    return (n_in * limits.price_in + n_out * limits.price_out) / MILLION


def _bytes_of(request: Request) -> int:
    prompt = prompt_of(request)
    if not isinstance(prompt, str):
        prompt = "".join(message.content for message in prompt)
    text = prompt + getattr(request, "continuation", "")
    return len(text.encode(errors="replace"))
