"""Prompts with images: the text with the model's placeholders, and the decoded images
in their order.

Images of lm-eval's tasks are at ``<image>`` in the text, as in lm-eval 0.4.13
(``models/hf_vlms.py``); those of lighteval follow the text (lighteval 0.13.0,
``prompt_manager.py``); those of cases are where the case has them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
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
from pytest_evals.data.images import (
    FORMATS,
    RowImage,
    check_image,
    check_size,
    image_bytes,
    image_digest,
)
from pytest_evals.errors import DocumentError, MissingExtraError
from pytest_evals.models.tokens.request_encoder import InvalidRequestError
from pytest_evals.models.tokens.settings import ImageSettings
from pytest_evals.models.tokens.spans import fit_prompt


class ImageFile(NamedTuple):
    """An image of a request."""

    source: str | RowImage  # Path, ``data:`` URL, or image of a row
    digest: str  # SHA-256 of the content
    name: str  # For messages

    @staticmethod
    def of(source: str | RowImage, number: int) -> ImageFile:
        """The image of a row or a ``data:`` URL, the request's ``number``-th. Raises
        ``DocumentError`` if the URL is invalid."""
        digest = image_digest(source) if isinstance(source, str) else source.digest
        return ImageFile(source, digest, f"image {number}")


class ImageCache:
    """Images of the current batch and of the one before, decoded with Pillow, which is
    imported for the first one, and resized as in lm-eval 0.4.13."""

    def __init__(self, settings: ImageSettings) -> None:
        self._settings = settings
        self._images: dict[str, Any] = {}

    def images(self, files: Iterable[ImageFile]) -> list[Any]:
        """PIL images, not to be changed; ``DocumentError`` for one that is refused."""
        found = []
        for file in files:
            if file.digest not in self._images:
                image = _decoded(file)
                self._images[file.digest] = _prepared(image, self._settings)
            found.append(self._images[file.digest])
        return found

    def keep(self, batches: Sequence[Iterable[ImageFile]]) -> None:
        """Release all images but those of these batches."""
        used = {file.digest for files in batches for file in files}
        self._images = {k: v for k, v in self._images.items() if k in used}


def _decoded(file: ImageFile) -> Any:
    """A PIL image in its own mode, upright by its EXIF orientation as in the
    ``datasets`` library; of an animation the first frame. A PIL image is returned as it
    is. Raises ``DocumentError`` if it is missing, broken, has changed, or exceeds a
    limit. Raises ``MissingExtraError`` if Pillow is missing."""
    source, digest, name = file
    try:
        from PIL import Image, ImageOps
    except ImportError:
        raise MissingExtraError("a document with images", "Pillow", "images") from None
    given = source.content if isinstance(source, RowImage) else source
    if not isinstance(given, str | bytes):
        check_size(given.size, name)
        return given
    check_image(given)  # by the header alone
    raw = given if isinstance(given, bytes) else image_bytes(given, digest)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(BytesIO(raw), formats=FORMATS) as image:
                check_size(image.size, name)
                image.load()
                return ImageOps.exif_transpose(image)  # always a copy
    except DocumentError:
        raise
    # Decoders raise many kinds of exceptions for broken files.
    except Exception as error:  # noqa: BLE001
        text = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DocumentError(f"{name} cannot be decoded: {text}") from None


def _prepared(image: Any, settings: ImageSettings) -> Any:
    """Resized and converted, in this order (``HFMultimodalLM.generate_until``)."""
    size = reduced_size(image.size, settings)
    image = image if size == image.size else image.resize(size)
    return image.convert("RGB") if settings.convert_img_format else image


def reduced_size(size: tuple[int, int], settings: ImageSettings) -> tuple[int, int]:
    """Width and height, reduced to the limits with the same aspect ratio; never
    enlarged (lm-eval 0.4.13, ``models/utils.py``, ``resize_image``)."""
    width, height = size
    wide, high = settings.image_width, settings.image_height
    if settings.image_max_side:
        is_wide = width > height
        wide, high = (
            (settings.image_max_side, 0) if is_wide else (0, settings.image_max_side)
        )
    if (not wide or width <= wide) and (not high or height <= high):
        return size
    if wide and high:
        ratio = min(wide / width, high / height)
        wide, high = int(width * ratio), int(height * ratio)
    elif wide:
        high = int(height / width * wide)
    else:
        wide = int(width / height * high)
    return max(1, wide), max(1, high)


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
