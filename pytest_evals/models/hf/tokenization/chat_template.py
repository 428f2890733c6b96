"""Chats as texts, by the template of a tokenizer.

The template comes with the model, from somebody whom nobody knows: it is limited in
time and memory, and whatever it does is a fault of the chat alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from pytest_evals.core.request import Message
from pytest_evals.errors import DocumentError, EvalsError
from pytest_evals.limits.templates import LimitedChatTemplates


class ChatTemplateError(DocumentError):
    """There is no template, or it makes no text of a chat."""


def render_chat(
    tokenizer: Any, chat: Sequence[Message], arguments: Mapping[str, Any]
) -> str:
    """The text of a chat.

    A template that takes no system message is tried without it (lm-eval 0.4.13,
    ``HFLM.apply_chat_template``).

    Raises:
        ChatError: There is no template, or it refuses the chat.
    """
    if not getattr(tokenizer, "chat_template", None):
        raise ChatTemplateError(
            "the prompt is a chat and the tokenizer has no chat template"
        )
    _limit_templates()
    rest = [message for message in chat if message.role != "system"]
    try:
        return _templated(tokenizer, chat, arguments)
    except Exception as error:  # noqa: BLE001 - whatever somebody's template does
        if len(rest) == len(chat) or not _is_refusal(error):
            raise _chat_error(error) from None
    try:
        return _templated(tokenizer, rest, arguments)
    except Exception as error:  # noqa: BLE001 - as above
        raise _chat_error(error) from None


def _templated(
    tokenizer: Any, chat: Sequence[Message], arguments: Mapping[str, Any]
) -> str:
    goes_on = bool(chat) and chat[-1].role == "assistant"
    text: str = tokenizer.apply_chat_template(
        [{"role": m.role, "content": m.content} for m in chat],
        tokenize=False,
        add_generation_prompt=not goes_on,
        continue_final_message=goes_on,
        **arguments,
    )
    return text


def _is_refusal(error: Exception) -> bool:
    """Whether the template says it, and none of its limits; by name, since this package
    does not import jinja2."""
    kinds = (f"{k.__module__}.{k.__qualname__}" for k in type(error).__mro__)
    said = "jinja2.exceptions.TemplateError" in kinds
    return said and not isinstance(error, EvalsError)


def _chat_error(error: Exception) -> ChatTemplateError:
    if isinstance(error, EvalsError):
        return ChatTemplateError(f"the chat template: {error}")
    if _is_refusal(error):
        return ChatTemplateError(f"the chat template refuses the chat: {error}")
    return ChatTemplateError(
        f"the chat template fails: {type(error).__name__}: {error}"
    )


@cache
def _limit_templates() -> None:
    """Let the library compile templates with limits, also those that it knows."""
    from transformers.utils import chat_template_utils as library

    if hasattr(library, "ImmutableSandboxedEnvironment"):
        library.ImmutableSandboxedEnvironment = LimitedChatTemplates
        known = getattr(library, "_compile_jinja_template", None)
        getattr(known, "cache_clear", lambda: None)()
