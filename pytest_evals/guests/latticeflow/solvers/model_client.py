"""Client of a model: converts LatticeFlow's model inputs to requests, and responses to
model outputs.

A model of a LatticeFlow file exchanges arbitrary JSON. All other models take chats and
return text; an unsupported input is an error of the document.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, cast

from pytest_evals.core.dialogue import Ask, Dialogue, ReadAsk
from pytest_evals.core.request import FITTING, Generate, Message, Response, Role
from pytest_evals.errors import DocumentError, EvalsError
from pytest_evals.guests.latticeflow.fields import Keys
from pytest_evals.guests.latticeflow.models import INPUT, KWARGS, SAMPLE
from pytest_evals.guests.latticeflow.prompts.items import (
    items_of,
    messages_of,
    text_of,
    unwrap,
)
from pytest_evals.guests.latticeflow.prompts.output import ModelResponse, SolverOutput
from pytest_evals.prompts.generation import Sampling, read_sampling

Sample = Mapping[str, Any]  # A row of a dataset, in LatticeFlow's terms
Solver = Callable[[Sample, int], Dialogue[SolverOutput]]
"""A sample, which is never modified, and the number of the trial → the output."""
MAX_TOKENS = 1024
"""Default maximum length of an answer in tokens, reduced if the context is shorter."""
_LENGTHS = ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens")
_LEFT_OUT = frozenset({"messages", "model", "n", "stream", "user"})
"""Keys of a chat that do not affect its answer here."""
ROLES = ("system", "user", "assistant")
"""Roles of messages in task files, and of those that every model supports."""


@dataclass(frozen=True, kw_only=True)
class ModelClient:
    """Converts the requests to one model."""

    name: str = ""  # as Ask.model; empty for the tested model
    native: bool = False  # whether it is a model of a LatticeFlow file
    takes_sample: bool = False
    temperature: float = 0.0
    gen_kwargs: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the command line, for models that are not native."""

    @cached_property
    def _overrides(self) -> str:
        return json.dumps(self.gen_kwargs, default=str, sort_keys=True)

    def ask(
        self,
        model_input: Any,
        sample: Sample,
        repeat: int = 0,
        kwargs: Mapping[str, Any] | None = None,
    ) -> Ask:
        """Return the request of a model input, any JSON value. ``repeat``: index of the
        repetition if the same input is sent several times; ``kwargs``: further
        arguments, for the adapter of a native model."""
        if not self.native:
            if kwargs and isinstance(model_input, Mapping):
                model_input = {**model_input, **kwargs}
            return Ask(self.name, self._plain(model_input, repeat))
        chat = _simple_chat(model_input)
        options: dict[str, Any] = {}
        if chat is None:
            options[INPUT] = True
        if kwargs:
            options[KWARGS] = _json(kwargs)
        if self.takes_sample:
            options[SAMPLE] = _json(sample)
        prompt = _json(model_input) if chat is None else chat
        more = tuple(sorted(options.items()))
        return Ask(self.name, Generate(prompt, options=more, repeat=repeat))

    def readable(self, ask: Ask, read: Callable[[str], object]) -> ReadAsk:
        """Return the request with a reader of the response's text; ``read`` raises
        ``DocumentError`` if it cannot be read."""
        return ReadAsk(*ask, lambda response: read(self.read(response).text))

    def read(self, response: Response) -> ModelResponse:
        """Return the model's response; raises the error of a failed request."""
        response.raise_for_error()
        if self.native:
            return ModelResponse(json.loads(response.text))
        usage = {
            "num_prompt_tokens": response.n_prompt_tokens,
            "num_completion_tokens": response.n_tokens,
        }
        message = {"role": "assistant", "content": response.text}
        return ModelResponse({"choices": [{"message": message}], "usage": usage})

    def _plain(self, model_input: Any, repeat: int) -> Generate:
        if not isinstance(model_input, Mapping) or "messages" not in model_input:
            raise DocumentError(
                "a chat model needs an object with messages, but the input is "
                f"{_json(model_input)[:200]}"
            )
        extra = {name: x for name, x in model_input.items() if name not in _LEFT_OUT}
        fields_json = json.dumps(extra, default=str, sort_keys=True) if extra else "{}"
        sampling = _sampling(self.temperature, fields_json, self._overrides)
        given = model_input["messages"]
        if isinstance(given, str | Mapping) or not isinstance(given, Iterable):
            raise DocumentError(f"messages must be a list, not {given!r:.80}")
        (first,) = sampling.requests(tuple(map(_message, given)), 1)
        return replace(first, repeat=repeat)


Models = Callable[[str], ModelClient]
"""Key of a model → its client; an empty key is the tested model."""


def recording(models: Models, called: set[str]) -> Models:
    """Return the same function, which also adds the keys of the models."""

    def client(key: str) -> ModelClient:
        called.add(key)
        return models(key)

    return client


def model_client(section: Keys, key: str, models: Models) -> ModelClient:
    """Return the client of the model whose key is set."""
    model = section.required_text(key, "<< config.my_model >>")
    client = section.or_problems(models, model) if model else None
    return client or ModelClient()


def input_of(items: Any) -> Any:
    """Return the model input for an argument of ``predict``: a whole input, or items of
    a trace."""
    if isinstance(items, Mapping) or not isinstance(items, Iterable):
        return unwrap(items)
    if isinstance(items, str):
        return items
    chat_items = items_of(items)
    if chat_items and chat_items[-1].get("type") == "custom_task_input_message":
        return unwrap(chat_items[-1].get("content"))
    return {"messages": messages_of(chat_items)}


@lru_cache(maxsize=256)
def _sampling(temperature: float, fields_json: str, overrides_json: str) -> Sampling:
    """Return the sampling settings, from the fields of the input besides its messages
    and the settings of the command line; cached, because most inputs share them."""
    extra, overrides = json.loads(fields_json), json.loads(overrides_json)
    settings: dict[str, Any] = {"temperature": temperature, "until": None}
    if _has_length(overrides):  # under any of its names
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


def _has_length(extra: Mapping[str, Any]) -> bool:
    return any(extra.get(name) is not None for name in _LENGTHS)


def _json(value: Any) -> str:
    """Return canonical JSON; dates and other non-JSON values become strings."""
    return json.dumps(unwrap(value), sort_keys=True, ensure_ascii=False, default=str)


def _simple_chat(model_input: Any) -> tuple[Message, ...] | None:
    """Return the input as a chat if it is nothing else, so that reports can show it."""
    if not isinstance(model_input, Mapping) or list(model_input) != ["messages"]:
        return None
    chat = []
    for message in model_input["messages"]:
        if not isinstance(message, Mapping) or set(message) != {"role", "content"}:
            return None
        if message["role"] not in ROLES or not isinstance(message["content"], str):
            return None
        chat.append(Message(message["role"], message["content"]))
    return tuple(chat)


def _message(message: Any) -> Message:
    role = message.get("role") if isinstance(message, Mapping) else None
    role = "system" if role == "developer" else role
    if role not in ROLES or message.get("tool_calls"):
        raise DocumentError(
            "this model supports text messages of system, user and assistant, not "
            f"{message!r:.120}"
        )
    content = message.get("content")
    if not isinstance(content, str):
        parts = content or []
        texts = [p for p in parts if isinstance(p, Mapping) and "text" in p]
        if not isinstance(parts, list) or len(texts) != len(parts):
            raise DocumentError(
                f"this model supports text content only, not {content!r:.120}"
            )
        content = text_of({"content": texts}) or ""
    return Message(cast("Role", role), content)
