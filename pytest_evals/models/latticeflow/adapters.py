"""Adapters between model inputs or outputs and HTTP bodies. The built-in ones have
LatticeFlow's names and implement the APIs they are named after."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from pytest_evals.errors import DocumentError


class ModelInfo(NamedTuple):
    """Properties of a model that its adapter may use.

    Args:
        name: Name in reports; not passed to adapters.
        model_key: Its name on the server.
        task: Its task.
        modality: Modality of inputs and outputs.
    """

    name: str
    model_key: str = ""
    task: str = "chat_completion"
    modality: str = "text"


class Adapter(NamedTuple):
    """Conversion in both directions. Raises ``DocumentError`` for values that cannot be
    converted.

    Args:
        key: Equal for adapters that do the same.
        to_body: Model input, further arguments and the model to the body's text.
        to_output: The reply's text, its status and the model to the model output.
        takes_faults: Whether it makes something of replies that are refusals by their
            status.
    """

    key: str
    to_body: Callable[[Any, Mapping[str, Any], ModelInfo], str]
    to_output: Callable[[str, int, ModelInfo], Any]
    takes_faults: bool = False


def parsed(text: str, what: str) -> Any:
    """Parse JSON.

    Raises:
        DocumentError: It is none.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        shown = text if len(text) <= 200 else text[:199] + "…"
        raise DocumentError(f"{what} is not JSON ({error}): {shown!r}") from None


def _merged(given: Any, kwargs: Mapping[str, Any]) -> Any:
    return {**given, **kwargs} if kwargs and isinstance(given, Mapping) else given


def _identity_body(given: Any, kwargs: Mapping[str, Any], info: ModelInfo) -> str:
    return _json(_merged(given, kwargs))


def _identity_output(text: str, status: int, info: ModelInfo) -> Any:
    return parsed(text, "the reply")


def _chat_body(given: Any, kwargs: Mapping[str, Any], info: ModelInfo) -> str:
    return _json({**_named(info), **_messages(given), **kwargs})


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
    return _json({**_named(info), "input": messages, **fields, **kwargs})


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


def _named(info: ModelInfo) -> dict[str, str]:
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


_IDENTITY = (
    "identity",
    "identity_chat_completion",
    "identity_embeddings",
    "identity_custom",
)
BUILT_IN: Mapping[str, Adapter] = {
    **{
        f"latticeflow${name}": Adapter(name, _identity_body, _identity_output)
        for name in _IDENTITY
    },
    "latticeflow$openai_chat_completion": Adapter(
        "openai_chat_completion", _chat_body, _chat_output
    ),
    "latticeflow$openai_responses": Adapter(
        "openai_responses", _responses_body, _responses_output
    ),
}
"""Key → adapter."""
