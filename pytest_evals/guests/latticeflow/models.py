"""Models of LatticeFlow's files, which exchange arbitrary JSON: their requests and
responses, adapters between model inputs or outputs and HTTP bodies, the cost of a run
before it starts, and a model that is a user's function. ``http_model`` has servers.

The built-in adapters have LatticeFlow's names and implement the APIs they are named
after.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

from pytest_evals.core.model import Model
from pytest_evals.core.request import Generate, Request, Response
from pytest_evals.core.run_plan import SpendPlan
from pytest_evals.errors import DocumentError, abbreviated
from pytest_evals.models.http.usage import SpendLimits, count_of, spend_plan_of


class ModelInfo(NamedTuple):
    """Properties of a model that its adapter may use."""

    name: str  # in reports; not passed to adapters
    model_key: str = ""  # its name on the server
    task: str = "chat_completion"
    modality: str = "text"

    @property
    def shown(self) -> Mapping[str, str]:
        """The properties by name, for templates."""
        return {k: v for k, v in self._asdict().items() if k != "name"}


class Adapter(NamedTuple):
    """Conversion in both directions. Raises ``DocumentError`` for values that cannot be
    converted."""

    key: str  # equal for adapters that do the same
    to_body: Callable[[Any, Mapping[str, Any], ModelInfo], str]
    """Model input, further arguments and the model → the body's text."""
    to_output: Callable[[str, int, ModelInfo], Any]
    """The reply's text, its status and the model → the model output."""
    takes_faults: bool = False  # whether it uses replies that are refusals by status


def parsed(text: str, label: str) -> Any:
    """Return parsed JSON; raises ``DocumentError`` for other text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        shown = abbreviated(text, 200)
        raise DocumentError(f"{label} is not JSON ({error}): {shown!r}") from None


def _identity_body(given: Any, kwargs: Mapping[str, Any], info: ModelInfo) -> str:
    is_merged = kwargs and isinstance(given, Mapping)
    return _json({**given, **kwargs} if is_merged else given)


def _identity_output(text: str, status: int, info: ModelInfo) -> Any:
    return parsed(text, "the reply")


def _chat_body(given: Any, kwargs: Mapping[str, Any], info: ModelInfo) -> str:
    return _json({**_model_field(info), **_messages(given), **kwargs})


def _chat_output(text: str, status: int, info: ModelInfo) -> Any:
    reply = parsed(text, "the reply")
    if not isinstance(reply, Mapping) or not isinstance(reply.get("choices"), list):
        raise DocumentError(f"the reply has no choices: {text!r:.200}")
    kept = ("message", "references")
    choices = [
        {name: choice[name] for name in kept if name in choice}
        for choice in reply["choices"]
    ]
    usage = _usage(reply, "prompt_tokens", "completion_tokens")
    return {"choices": choices, "usage": usage}


def _responses_body(given: Any, kwargs: Mapping[str, Any], info: ModelInfo) -> str:
    fields = dict(_messages(given))
    messages = fields.pop("messages")
    return _json({**_model_field(info), "input": messages, **fields, **kwargs})


def _responses_output(text: str, status: int, info: ModelInfo) -> Any:
    reply = parsed(text, "the reply")
    if not isinstance(reply, Mapping) or not isinstance(reply.get("output"), list):
        raise DocumentError(f"the reply has no output: {text!r:.200}")
    usage = _usage(reply, "input_tokens", "output_tokens")
    return {"items": reply["output"], "usage": usage}


def _messages(given: Any) -> Mapping[str, Any]:
    if isinstance(given, Mapping) and isinstance(given.get("messages"), list):
        return given
    raise DocumentError(f"the model takes messages, not {_json(given):.200}")


def _model_field(info: ModelInfo) -> dict[str, str]:
    return {"model": info.model_key} if info.model_key else {}


def _usage(reply: Mapping[str, Any], n_in: str, n_out: str) -> dict[str, Any] | None:
    given = reply.get("usage")
    if not isinstance(given, Mapping):
        return None
    return {
        "num_prompt_tokens": given.get(n_in, given.get("num_prompt_tokens")),
        "num_completion_tokens": given.get(n_out, given.get("num_completion_tokens")),
    }


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


_IDENTITY = (_identity_body, _identity_output)
_CONVERSIONS = {
    "identity": _IDENTITY,
    "identity_chat_completion": _IDENTITY,
    "identity_embeddings": _IDENTITY,
    "identity_custom": _IDENTITY,
    "openai_chat_completion": (_chat_body, _chat_output),
    "openai_responses": (_responses_body, _responses_output),
}
BUILT_IN: Mapping[str, Adapter] = {
    f"latticeflow${key}": Adapter(key, *both) for key, both in _CONVERSIONS.items()
}
"""Key → adapter."""

INPUT = "model_input"  # Request option: the prompt is a model input as JSON
KWARGS = "model_kwargs"  # Request option: further arguments of predict, as JSON
SAMPLE = "sample"  # Request option for models that use the sample: the sample as JSON


def body_of(
    request: Request, adapter: Adapter, info: ModelInfo
) -> tuple[str, Mapping[str, Any] | None]:
    """The body of a request, and the sample if the model uses it. Raises
    ``DocumentError`` for log-likelihoods and inputs that cannot be converted."""
    if not isinstance(request, Generate):
        raise DocumentError(
            "a model of a LatticeFlow file writes texts and gives no log-probabilities"
        )
    options = dict(request.options)
    prompt = request.prompt
    if not isinstance(prompt, str):
        chat = [{"role": one.role, "content": one.content} for one in prompt]
        given: Any = {"messages": chat}
    elif options.get(INPUT):
        given = json.loads(prompt)
    else:
        given = {"messages": [{"role": "user", "content": prompt}]}
    body = adapter.to_body(given, json.loads(options.get(KWARGS, "{}")), info)
    return body, json.loads(options.get(SAMPLE, "null"))


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


_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens", "max_new_tokens")


def token_limit(body: str) -> int | None:
    """The maximum of generated tokens that a request's body sets; ``None`` if it sets
    none."""
    try:
        found = parsed(body, "the request")
    except DocumentError:
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
        if isinstance(request, Generate):
            # After an error of its document, it is not sent.
            with suppress(DocumentError):
                body, _ = body_of(request, adapter, info)
                sent.append(replace(request, max_tokens=token_limit(body) or 0))
    plan = spend_plan_of(SpendLimits(**limits), sent)
    is_limited = all(one.max_tokens for one in sent)
    return plan if is_limited else replace(plan, most_tokens=None)


Run = Callable[[str, Mapping[str, Any] | None], Any]
"""Function from a body and the sample to a reply. Raises ``DocumentError``."""


class FunctionModel(Model):
    """Calls a function for each request; in threads, if several calls may run at the
    same time (``width``)."""

    def __init__(
        self,
        info: ModelInfo,
        adapter: Adapter,
        run: Run,
        fingerprint: Mapping[str, Any],
        width: int = 1,
    ) -> None:
        self.name = info.name
        self.info: dict[str, Any] = {"model": info.name}
        self.fingerprint: Mapping[str, Any] | None = fingerprint
        self._info, self._adapter, self._run, self._width = info, adapter, run, width

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Response]]:
        """Call the function for each request."""
        if self._width == 1 or len(requests) < 2:
            for place, request in enumerate(requests):
                yield place, self._one(request)
            return
        pool = ThreadPoolExecutor(self._width, thread_name_prefix="evals-latticeflow")
        try:
            futures = {pool.submit(self._one, r): n for n, r in enumerate(requests)}
            for future in as_completed(futures):
                yield futures[future], future.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _one(self, request: Request) -> Response:
        began = time.perf_counter()
        try:
            reply = self._run(*body_of(request, self._adapter, self._info))
            if not isinstance(reply, str):
                message = f"run_inference returns a text, not {reply!r:.80}"
                raise DocumentError(message)
            output = self._adapter.to_output(reply, 200, self._info)
        except DocumentError as error:
            return Response(error=str(error))
        took_s = time.perf_counter() - began
        return response_of(output, took_s / self._width, took_s)
