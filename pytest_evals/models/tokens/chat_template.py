"""Chat rendering by the tokenizer's template.

Templates come with models from untrusted sources: they run with time and memory limits,
and any failure is an error of the chat alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from pytest_evals.core.request import TOOLS_ROLE, Message
from pytest_evals.errors import DocumentError, EvalsError
from pytest_evals.limits.templates import LimitedChatTemplates
from pytest_evals.models.folders import NO_TOOLS


class ChatTemplateError(DocumentError):
    """The chat template is missing or failed."""


def template_text(tokenizer: Any, *, has_tools: bool) -> str:
    """Return the source of the chat template; empty without one. A tokenizer may have
    several, of which ``tool_use`` is for chats with tools."""
    found = getattr(tokenizer, "chat_template", None)
    if isinstance(found, Mapping):
        name = "tool_use" if has_tools and "tool_use" in found else "default"
        found = found.get(name)
    return found if isinstance(found, str) else ""


def render_chat(
    tokenizer: Any, chat: Sequence[Message], arguments: Mapping[str, Any]
) -> str:
    """Render a chat as a string.

    If the template rejects a system message, the chat is rendered without it (lm-eval
    0.4.13, ``HFLM.apply_chat_template``). Tools are a last message
    (:func:`~pytest_evals.core.request.with_tools`). Raises ``ChatTemplateError`` if the
    template is missing, refuses the chat, or ignores its tools.
    """
    if chat and chat[-1].role == TOOLS_ROLE:
        *rest, tools = chat
        with_tools = {**arguments, "tools": json.loads(tools.content)}
        text = render_chat(tokenizer, rest, with_tools)
        if text == render_chat(tokenizer, rest, arguments):
            raise ChatTemplateError(NO_TOOLS)
        return text
    if not getattr(tokenizer, "chat_template", None):
        raise ChatTemplateError(
            "the prompt is a chat and the tokenizer has no chat template"
        )
    _limit_templates()
    rest = [message for message in chat if message.role != "system"]
    try:
        return _templated(tokenizer, chat, arguments)
    except Exception as error:  # noqa: BLE001 - templates may raise anything
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
    """Whether the template itself raised the error, not one of its limits. Compares
    class names, since this package does not import jinja2."""
    kinds = (f"{k.__module__}.{k.__qualname__}" for k in type(error).__mro__)
    raised = "jinja2.exceptions.TemplateError" in kinds
    return raised and not isinstance(error, EvalsError)


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
    """Make transformers compile templates in the limited sandbox, and anew."""
    from transformers.utils import chat_template_utils as library

    if hasattr(library, "ImmutableSandboxedEnvironment"):
        library.ImmutableSandboxedEnvironment = LimitedChatTemplates
        known = getattr(library, "_compile_jinja_template", None)
        getattr(known, "cache_clear", lambda: None)()
