"""Chats as OpenAI's message objects, with images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_evals.core.request import IMAGES, LEADING_IMAGES, Message


def chat_messages(
    chat: Sequence[Message], options: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """The messages. Images are appended to the last one, or prepended to the user's
    last one, as lm-eval 0.4.13 sends them (``models/api_models.py``,
    ``create_image_prompt``)."""
    found: list[dict[str, Any]] = [
        {"role": message.role, "content": message.content} for message in chat
    ]
    asked = next((m for m in reversed(found) if m["role"] == "user"), found[-1])
    for key, message in ((IMAGES, found[-1]), (LEADING_IMAGES, asked)):
        urls = [{"url": url} for url in options.get(key, ())]
        if not urls:
            continue
        parts = [{"type": "text", "text": message["content"]}]
        if key == IMAGES:
            parts += [{"type": "image_url", "image_url": url} for url in urls]
        else:
            shown = [{**url, "detail": "auto"} for url in urls]
            parts = [{"type": "image_url", "image_url": url} for url in shown] + parts
        message["content"] = parts
    return found
