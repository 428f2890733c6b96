"""Prompts with images: the text with the model's placeholders, and the images in their
order.

Images of lm-eval's tasks are at ``<image>`` in the text, as in lm-eval 0.4.13
(``models/hf_vlms.py``); those of lighteval follow the text (lighteval 0.13.0,
``prompt_manager.py``); those of cases are where the case has them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pytest_evals.core.request import (
    IMAGES,
    LEADING_IMAGES,
    PLACED_IMAGES,
    Generate,
    ImageLoglikelihood,
    Message,
    Prompt,
    with_tools,
)
from pytest_evals.errors import DocumentError
from pytest_evals.models.images.image_cache import ImageFile
from pytest_evals.models.tokens.request_encoder import InvalidRequestError
from pytest_evals.models.tokens.settings import ImageSettings
from pytest_evals.models.tokens.spans import fit_prompt

TAG = "<image>"  # An image in the text of an lm-eval task
Parts = list[dict[str, str]]  # A message for chat templates: texts and places of images


class ImagePrompt(NamedTuple):
    """A prompt as a processor takes it."""

    text: str
    images: tuple[ImageFile, ...]
    is_bare: bool  # Whether the text already has the tokenizer's first token


@dataclass(slots=True, eq=False)
class ImagePrompts:
    """Makes prompts of requests."""

    settings: ImageSettings
    placeholder: str  # The placeholder string of an image outside of chats
    render: Callable[[Sequence[Message]], str]  # Renders a chat of :data:`Parts`
    bos: str  # The tokenizer's first string; empty for none
    notes: dict[str, None] = field(default_factory=dict)  # Warnings so far

    def of(self, request: Generate | ImageLoglikelihood) -> ImagePrompt:
        """The prompt of a request, or ``DocumentError`` for an image or the chat."""
        options = dict(request.options)
        prompt: Prompt = (
            with_tools(request) if isinstance(request, Generate) else request.context
        )
        files = _files(options)
        most = self.settings.max_images
        if len(files) > most and LEADING_IMAGES not in options:
            raise DocumentError(
                f"the request has {len(files)} images; the model's max_images is {most}"
            )
        if isinstance(prompt, str):
            text = self._plain(prompt, len(files), options)
        else:
            text = self.render([*self._chat(prompt, options)])
        # lm-eval and lighteval let the processor add a second one.
        is_own = PLACED_IMAGES in options
        is_bare = is_own and bool(self.bos) and text.startswith(self.bos)
        return ImagePrompt(text, tuple(files[:most]), is_bare)

    def _plain(self, text: str, n: int, options: Mapping[str, Any]) -> str:
        """A text that is not a chat, with placeholders."""
        if LEADING_IMAGES not in options:
            return text + self.placeholder * n
        first, *rest = text.split(TAG)
        most = self.settings.max_images
        if len(rest) > most and self.placeholder != TAG:
            self.notes[_KEPT.format(most)] = None
        kept = "" if self.placeholder == TAG else TAG
        places = [self.placeholder if i < most else kept for i in range(len(rest))]
        return first + "".join(
            place + part for place, part in zip(places, rest, strict=True)
        )

    def _chat(
        self, chat: Sequence[Message], options: Mapping[str, Any]
    ) -> Iterator[Message]:
        last = max((i for i, m in enumerate(chat) if m.role == "user"), default=-1)
        for number, message in enumerate(chat):
            content: Any = message.content
            if message.role in _ROLES:
                content = self._content(number, message.content, options)
            if number == last and options.get(IMAGES):
                content += [{"type": "image"}] * len(options[IMAGES])
            yield message._replace(content=content)

    def _content(self, number: int, text: str, options: Mapping[str, Any]) -> Parts:
        if LEADING_IMAGES in options:
            return _tagged(text, self.settings)
        placed = [one for one in options.get(PLACED_IMAGES, ()) if one[0] == number]
        parts, start = Parts(), 0
        for _, at, *_ in placed:
            parts += [*text_parts(text[start:at]), {"type": "image"}]
            start = at
        return [*parts, *text_parts(text[start:])]


def max_new_tokens(request: Generate, n_prompt: int, window: int) -> int:
    """Maximum of new tokens after a prompt with images, which is never truncated.
    Raises ``InvalidRequestError`` if they do not fit into the window together."""
    n_kept, max_tokens = fit_prompt(request, n_prompt, window)
    if n_kept < n_prompt:
        raise InvalidRequestError(
            f"the prompt has {n_prompt} tokens, images included, and the answer up to "
            f"{request.max_tokens}; the model's window has {window}\n"
            "  fix: set max_pixels or image_max_side, or fewer max_tokens"
        )
    return max_tokens


def _tagged(text: str, settings: ImageSettings) -> Parts:
    """The parts of a message of an lm-eval task (``apply_chat_template``)."""
    first, *rest = text.split(TAG)
    if not settings.interleave:
        n = min(settings.max_images, len(rest))
        return [{"type": "image"}] * n + [
            {"type": "text", "text": first + "".join(rest)}
        ]
    parts = text_parts(first)
    for number, part in enumerate(rest):
        parts += [{"type": "image"}] * (number < settings.max_images) + text_parts(part)
    return parts


def text_parts(text: str) -> Parts:
    """A text as content of a message; nothing for an empty one."""
    return [{"type": "text", "text": text}] if text else []


def _files(options: Mapping[str, Any]) -> list[ImageFile]:
    found = (*options.get(LEADING_IMAGES, ()), *options.get(IMAGES, ()))
    files = [ImageFile.of(one, i) for i, one in enumerate(found, start=1)]
    placed = enumerate(options.get(PLACED_IMAGES, ()), start=1)
    for number, (_, _, digest, _, name, source) in placed:
        files.append(
            ImageFile(source, digest, repr(name) if name else f"image {number}")
        )
    return files


_ROLES = ("system", "user", "assistant")
_KEPT = (
    "texts with more than max_images={} images keep the other <image> tags, as in "
    "lm-eval"
)
