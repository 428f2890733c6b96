"""The line to a model: from LatticeFlow's model input to a request, and back from the
response to its model output.

A model of a LatticeFlow file takes any JSON and gives any JSON. All other models take
chats and give texts; what they cannot take is an error of the document.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, cast

from pytest_evals.core.dialogue import Ask
from pytest_evals.core.request import FITTING, Generate, Message, Response, Role
from pytest_evals.dialects.latticeflow.prompts.items import (
    items_of,
    messages_of,
    text_of,
)
from pytest_evals.dialects.latticeflow.prompts.message_types import plain
from pytest_evals.dialects.latticeflow.prompts.output import ModelResponse
from pytest_evals.errors import DocumentError, EvalsError
from pytest_evals.models.latticeflow.messages import INPUT, KWARGS, SAMPLE
from pytest_evals.prompts.generation import Sampling, read_sampling

MAX_TOKENS = 1024
"""Most tokens of an answer where nothing else is said; as many of them as fit."""
_LEFT_OUT = frozenset({"messages", "model", "n", "stream", "user"})
"""Fields of a chat that say nothing about its answer here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SolverChain:
    """How one model is asked.

    Args:
        name: As ``Ask.model``; empty for the model that is tested.
        native: Whether it is a model of a LatticeFlow file.
        takes_sample: Whether it looks at the sample.
        temperature: Where the input says nothing.
        gen_kwargs: Settings of the command line, for models that are not native.
    """

    name: str = ""
    native: bool = False
    takes_sample: bool = False
    temperature: float = 0.0
    gen_kwargs: Mapping[str, Any] = field(default_factory=dict)
    _overrides: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Write down what is the same for all inputs."""
        told = json.dumps(self.gen_kwargs, default=str, sort_keys=True)
        object.__setattr__(self, "_overrides", told)

    def ask(
        self,
        given: Any,
        sample: Mapping[str, Any],
        repeat: int = 0,
        kwargs: Mapping[str, Any] | None = None,
    ) -> Ask:
        """The request for a model input.

        Args:
            given: Any JSON value; a chat has ``messages``.
            sample: What it is about.
            repeat: 0, 1, 2, … when the same input is sent several times.
            kwargs: Further arguments, for the adapter of a native model.

        Raises:
            DocumentError: The model cannot take it.
        """
        if self.native:
            return Ask(self.name, self._native(given, sample, repeat, kwargs))
        if kwargs:
            given = {**given, **kwargs} if isinstance(given, Mapping) else given
        return Ask(self.name, self._plain(given, repeat))

    def read(self, response: Response) -> ModelResponse:
        """What the model gave.

        Raises:
            DocumentError: There is no response.
        """
        response.raise_for_error()
        if self.native:
            return ModelResponse(json.loads(response.text))
        usage = {
            "num_prompt_tokens": response.n_prompt_tokens,
            "num_completion_tokens": response.n_tokens,
        }
        message = {"role": "assistant", "content": response.text}
        return ModelResponse({"choices": [{"message": message}], "usage": usage})

    def _native(
        self,
        given: Any,
        sample: Mapping[str, Any],
        repeat: int,
        kwargs: Mapping[str, Any] | None,
    ) -> Generate:
        options: list[tuple[str, Any]] = []
        prompt = _simple_chat(given)
        if prompt is None:
            options.append((INPUT, True))
        if kwargs:
            options.append((KWARGS, _json(kwargs)))
        if self.takes_sample:
            options.append((SAMPLE, _json(sample)))
        return Generate(
            _json(given) if prompt is None else prompt,
            options=tuple(sorted(options)),
            repeat=repeat,
        )

    def _plain(self, given: Any, repeat: int) -> Generate:
        if not isinstance(given, Mapping) or "messages" not in given:
            raise DocumentError(
                "a chat model takes an object with messages, and the input is "
                f"{_json(given)[:200]}"
            )
        extra = {name: one for name, one in given.items() if name not in _LEFT_OUT}
        said = json.dumps(extra, default=str, sort_keys=True) if extra else "{}"
        sampling = _sampling(self.temperature, said, self._overrides)
        (first,) = sampling.requests(_chat(given["messages"]), 1)
        return replace(first, repeat=repeat) if first.temperature > 0 else first


@lru_cache(maxsize=256)
def _sampling(temperature: float, said: str, told: str) -> Sampling:
    """How an answer is drawn; equal for most inputs of a task.

    Args:
        temperature: Where nothing is said of it.
        said: Fields of the input beside its messages, as JSON.
        told: Settings of the command line, as JSON.

    Raises:
        DocumentError: A field means nothing.
    """
    extra, overrides = json.loads(said), json.loads(told)
    settings: dict[str, Any] = {"temperature": temperature, "until": None}
    if _has_length(overrides):  # by whatever name
        extra = {key: one for key, one in extra.items() if key not in _LENGTHS}
    elif not _has_length(extra):
        settings |= {"max_gen_toks": MAX_TOKENS, FITTING: True}
    if "stop" in extra:
        extra["until"] = extra.pop("stop")
    if "response_format" in extra:
        extra["response_format"] = _json(extra["response_format"])
    try:
        return read_sampling({**settings, **extra}, overrides, "").sampling
    except EvalsError as error:
        raise DocumentError(f"the model input: {error}") from None


def input_of(items: Any) -> Any:
    """The model input of what ``predict`` is given: a whole input, or items of a trace.

    Raises:
        DocumentError: Something in it has no place in a chat.
    """
    if isinstance(items, Mapping) or not isinstance(items, Iterable):
        return plain(items)
    if isinstance(items, str):
        return items
    found = items_of(items)
    if found and found[-1].get("type") == "custom_task_input_message":
        return plain(found[-1].get("content"))
    return {"messages": messages_of(found)}


def _json(value: Any) -> str:
    """Canonical JSON, also of dates and other things that a dataset may hold."""
    return json.dumps(plain(value), sort_keys=True, ensure_ascii=False, default=str)


_LENGTHS = ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens")


def _has_length(extra: Mapping[str, Any]) -> bool:
    return any(extra.get(name) is not None for name in _LENGTHS)


def _simple_chat(given: Any) -> tuple[Message, ...] | None:
    """The input as a chat if it is nothing else, so that it can be read in reports."""
    if not isinstance(given, Mapping) or list(given) != ["messages"]:
        return None
    chat = []
    for message in given["messages"]:
        if not isinstance(message, Mapping) or set(message) != {"role", "content"}:
            return None
        role, content = message["role"], message["content"]
        if role not in ("system", "user", "assistant") or not isinstance(content, str):
            return None
        chat.append(Message(role, content))
    return tuple(chat)


def _chat(messages: Any) -> tuple[Message, ...]:
    """A chat of texts.

    Raises:
        DocumentError: It has something else in it.
    """
    if isinstance(messages, str | Mapping) or not isinstance(messages, Iterable):
        raise DocumentError(f"messages are a list, not {messages!r:.80}")
    return tuple(_message(message) for message in messages)


def _message(message: Any) -> Message:
    role = message.get("role") if isinstance(message, Mapping) else None
    role = "system" if role == "developer" else role
    if role not in ("system", "user", "assistant") or message.get("tool_calls"):
        raise DocumentError(
            "this model takes texts of system, user and assistant, not "
            f"{message!r:.120}"
        )
    content = message.get("content")
    if not isinstance(content, str):
        parts = content or []
        texts = [p for p in parts if isinstance(p, Mapping) and "text" in p]
        if not isinstance(parts, list) or len(texts) != len(parts):
            raise DocumentError(f"this model takes texts, not {content!r:.120}")
        content = text_of({"content": texts}) or ""
    return Message(cast("Role", role), content)
