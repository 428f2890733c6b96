"""Requests and responses of models in LatticeFlow's files, whose inputs and outputs are
arbitrary JSON. The options below contain the parts that a chat cannot."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pytest_evals.core.request import Generate, Request, Response
from pytest_evals.models.http.usage import count_of

INPUT = "model_input"
"""Request option: the prompt is a model input as JSON."""
KWARGS = "model_kwargs"
"""Request option: further arguments of ``predict``, as JSON."""
SAMPLE = "sample"
"""Request option for models that use the sample: the sample as JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInput:
    """The input of a model."""

    input: Any  # any JSON value; a chat has messages
    kwargs: Mapping[str, Any]
    sample: Mapping[str, Any] | None  # None if the model does not use it


def model_input_of(request: Request) -> ModelInput | None:
    """The input of a request; ``None`` for log-likelihoods, which are not supported."""
    if not isinstance(request, Generate):
        return None
    options = dict(request.options)
    prompt = request.prompt
    if not isinstance(prompt, str):
        chat = [{"role": one.role, "content": one.content} for one in prompt]
        found: Any = {"messages": chat}
    elif options.get(INPUT):
        found = json.loads(prompt)
    else:
        found = {"messages": [{"role": "user", "content": prompt}]}
    sample = options.get(SAMPLE)
    return ModelInput(
        input=found,
        kwargs=json.loads(options.get(KWARGS, "{}")),
        sample=None if sample is None else json.loads(sample),
    )


def response_of(
    output: Any, elapsed_s: float = 0.0, latency_s: float = 0.0
) -> Response:
    """The response for a model output; its text is the output as JSON."""
    if isinstance(output, Mapping) and output.get("error") and len(output) == 1:
        error = output["error"]
        message = error if isinstance(error, str) else json.dumps(error)
        return Response(error=f"the model returned an error: {message}")
    n_prompt_tokens, n_tokens = tokens_of(output)
    return Response(
        text=json.dumps(output, ensure_ascii=False),
        n_prompt_tokens=n_prompt_tokens,
        n_tokens=n_tokens,
        elapsed_s=elapsed_s,
        latency_s=latency_s,
    )


def tokens_of(output: Any) -> tuple[int, int]:
    """Tokens of prompt and completion of a model output; 0 if not reported."""
    usage = output.get("usage") if isinstance(output, Mapping) else None
    usage = usage if isinstance(usage, Mapping) else {}
    names = ("num_prompt_tokens", "num_completion_tokens")
    n_in, n_out = (count_of(usage.get(name)) for name in names)
    return n_in, n_out
