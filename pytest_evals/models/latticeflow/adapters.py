"""Adapters: from a model input to the body of a call, and from its reply to a model
output. The built-in ones are LatticeFlow's by their names; how they read and write is
that of the APIs that they are called after."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from pytest_evals.errors import DocumentError


class ModelInfo(NamedTuple):
    """What an adapter may know of its model.

    Args:
        name: What reports call it; adapters do not see that.
        model_key: What its server calls it.
        task: What it is for.
        modality: What it reads and writes.
    """

    name: str
    model_key: str = ""
    task: str = "chat_completion"
    modality: str = "text"


class Adapter(NamedTuple):
    """Both directions. They raise ``DocumentError`` where something has no place.

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
    """A text as JSON.

    Raises:
        DocumentError: It is none.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        shown = text if len(text) <= 200 else text[:199] + "…"
        raise DocumentError(f"{what} is no JSON ({error}): {shown!r}") from None


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
    said = dict(_messages(given))
    messages = said.pop("messages")
    return _json({**_named(info), "input": messages, **said, **kwargs})


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
    """Counts of tokens, also where they have their final names already."""
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
