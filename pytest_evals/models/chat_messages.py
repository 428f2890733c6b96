"""Chats as OpenAI's message objects, with images."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_evals.core.request import IMAGES, LEADING_IMAGES, PLACED_IMAGES, Message
from pytest_evals.data.images import image_url


def chat_messages(
    chat: Sequence[Message], options: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """The messages. Images are appended to the last one, or prepended to the user's
    last one, as lm-eval 0.4.13 sends them (``models/api_models.py``,
    ``create_image_prompt``); placed ones stay where they are in the text.

    Raises:
        DocumentError: An image cannot be read, or its file has changed.
    """
    found: list[dict[str, Any]] = [
        {"role": message.role, "content": message.content} for message in chat
    ]
    for number, message in enumerate(found):
        placed = [one for one in options.get(PLACED_IMAGES, ()) if one[0] == number]
        if placed:
            message["content"] = [*_parts(message["content"], placed)]
    asked = next((m for m in reversed(found) if m["role"] == "user"), found[-1])
    for key, message in ((IMAGES, found[-1]), (LEADING_IMAGES, asked)):
        detail = {} if key == IMAGES else {"detail": "auto"}
        images = [
            {"type": "image_url", "image_url": {"url": str(image), **detail}}
            for image in options.get(key, ())
        ]
        text = [{"type": "text", "text": message["content"]}]
        if images:
            message["content"] = text + images if key == IMAGES else images + text
    return found


def _parts(text: str, images: Sequence[Sequence[Any]]) -> Iterator[dict[str, Any]]:
    """Yield the text of a message in pieces, with images between them."""
    start = 0
    for _, at, digest, detail, _, source in images:
        if text[start:at]:
            yield {"type": "text", "text": text[start:at]}
        url = {"url": image_url(source, digest)}
        shown = {**url, "detail": detail} if detail else url
        yield {"type": "image_url", "image_url": shown}
        start = at
    if text[start:]:
        yield {"type": "text", "text": text[start:]}
