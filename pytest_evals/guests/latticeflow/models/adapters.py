"""Adapters between model inputs or outputs and HTTP bodies. The built-in ones have
LatticeFlow's names and implement the APIs they are named after."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from pytest_evals.errors import DocumentError, abbreviated


class ModelInfo(NamedTuple):
    """Properties of a model that its adapter may use."""

    name: str  # in reports; not passed to adapters
    model_key: str = ""  # its name on the server
    task: str = "chat_completion"
    modality: str = "text"


class Adapter(NamedTuple):
    """Conversion in both directions. Raises ``DocumentError`` for values that cannot be
    converted."""

    key: str  # equal for adapters that do the same
    to_body: Callable[[Any, Mapping[str, Any], ModelInfo], str]
    """Model input, further arguments and the model → the body's text."""
    to_output: Callable[[str, int, ModelInfo], Any]
    """The reply's text, its status and the model → the model output."""
    takes_faults: bool = False  # whether it uses replies that are refusals by status


def parsed(text: str, what: str) -> Any:
    """Return parsed JSON; raises ``DocumentError`` for other text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        shown = abbreviated(text, 200)
        raise DocumentError(f"{what} is not JSON ({error}): {shown!r}") from None


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
    """Token counts, including those that already have their final names."""
    given = reply.get("usage")
    if not isinstance(given, Mapping):
        return None
    return {
        "num_prompt_tokens": given.get(n_in, given.get("num_prompt_tokens")),
        "num_completion_tokens": given.get(n_out, given.get("num_completion_tokens")),
    }


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _adapter(
    key: str,
    to_body: Callable[[Any, Mapping[str, Any], ModelInfo], str],
    to_output: Callable[[str, int, ModelInfo], Any],
) -> tuple[str, Adapter]:
    return f"latticeflow${key}", Adapter(key, to_body, to_output)


BUILT_IN: Mapping[str, Adapter] = dict(
    (
        _adapter("identity", _identity_body, _identity_output),
        _adapter("identity_chat_completion", _identity_body, _identity_output),
        _adapter("identity_embeddings", _identity_body, _identity_output),
        _adapter("identity_custom", _identity_body, _identity_output),
        _adapter("openai_chat_completion", _chat_body, _chat_output),
        _adapter("openai_responses", _responses_body, _responses_output),
    )
)
"""Key → adapter."""
