"""Token limits and cost of requests to a model at a URL, without opening it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_evals.core.request import Generate, Request
from pytest_evals.core.run_plan import SpendPlan
from pytest_evals.errors import DocumentError
from pytest_evals.guests.latticeflow.models.adapters import Adapter, ModelInfo
from pytest_evals.guests.latticeflow.models.messages import model_input_of
from pytest_evals.models.http.spend_plan import SpendLimits, spend_plan_of
from pytest_evals.models.http.usage import count_of

_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens", "max_new_tokens")


def token_limit(body: str) -> int | None:
    """The maximum of generated tokens that a request's body sets; ``None`` if it sets
    none."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    most = max(count_of(found.get(name)) for name in _LIMITS)
    return most * max(1, count_of(found.get("n"))) or None


def spend_plan(
    requests: Sequence[Request],
    adapter: Adapter,
    info: ModelInfo,
    limits: Mapping[str, Any],
) -> SpendPlan:
    """Requests, tokens and cost of a run. ``limits``: spend caps and prices."""
    sent: list[Generate] = []
    for request in requests:
        given = model_input_of(request)
        if given is None or not isinstance(request, Generate):
            continue
        try:
            body = adapter.to_body(given.input, given.kwargs, info)
        except DocumentError:  # an error of its document, which is not sent
            continue
        sent.append(replace(request, max_tokens=token_limit(body) or 0))
    plan = spend_plan_of(SpendLimits(**limits), sent)
    is_limited = all(one.max_tokens for one in sent)
    return plan if is_limited else replace(plan, most_tokens=None)
