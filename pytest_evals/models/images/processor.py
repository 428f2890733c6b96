"""The processor of an image-text-to-text model: chats, placeholders and tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pytest_evals.core.request import Message
from pytest_evals.errors import DocumentError, ModelError, plural
from pytest_evals.models.images.prompts import ImagePrompt, ImagePrompts, text_parts
from pytest_evals.models.tokens.chat_template import render_chat
from pytest_evals.models.tokens.loader import first_line, one_error, origin, quiet
from pytest_evals.models.tokens.settings import ImageSettings

IDS, MASK = "input_ids", "attention_mask"


class EncodedPrompts(NamedTuple):
    """The tensors of several prompts, on the CPU."""

    tensors: Mapping[str, Tensor]
    """Arguments of the model: ``input_ids`` and ``attention_mask`` (B, T), padded on
    the left; others of a model's own shapes."""

    @property
    def lengths(self) -> list[int]:
        """Number of tokens of each prompt, images included."""
        found: list[int] = self.tensors[MASK].sum(dim=1).tolist()
        return found

    def of_tokens(self) -> dict[str, Tensor]:
        """The tensors with one value for each token, (B, T)."""
        shape = self.tensors[IDS].shape
        return {k: v for k, v in self.tensors.items() if v.shape == shape}


class ImageProcessor:
    """A processor of transformers with its own tokenizer, for any thread."""

    def __init__(self, config: Any, settings: ImageSettings) -> None:
        """Load a model's processor, or ``ModelError``: it or a library is missing."""
        import transformers

        kind: Any = transformers.AutoProcessor
        with quiet(), one_error(settings.target):
            self._processor: Any = kind.from_pretrained(
                **origin(settings), **settings.pixel_limits
            )
        self._tokenizer: Any = getattr(self._processor, "tokenizer", None)
        if self._tokenizer is None or not hasattr(self._processor, "image_processor"):
            raise ModelError(
                f"{settings.target!r} has no processor for images\n  fix: add its "
                "preprocessor_config.json, or choose a model that reads images"
            )
        if not getattr(self._processor, "chat_template", None):
            template = getattr(self._tokenizer, "chat_template", None)
            self._processor.chat_template = template
        self._tokenizer.padding_side = "left"
        if self._tokenizer.pad_token_id is None:
            self._tokenizer.pad_token = self._tokenizer.eos_token
        self.pad_id: int = self._tokenizer.pad_token_id or 0
        self._settings = settings
        self.placeholder = self._placeholder(config)

    def prompts(self) -> ImagePrompts:
        """The prompts of requests."""
        bos = getattr(self._tokenizer, "bos_token", None) or ""
        return ImagePrompts(self._settings, self.placeholder, self._render, bos)

    @property
    def added_start(self) -> str:
        """The string that the tokenizer adds in front of a text; empty for none."""
        bos = getattr(self._tokenizer, "bos_token_id", None)
        first = self._tokenizer("a")["input_ids"][:1]
        return str(self._tokenizer.bos_token) if first == [bos] else ""

    def encode(
        self, prompts: Sequence[ImagePrompt], images: Sequence[Sequence[Any]]
    ) -> EncodedPrompts:
        """The tensors of prompts with equal ``is_bare``. Raises ``DocumentError`` if
        the processor refuses them, for example because the numbers of images and of
        placeholders differ."""
        added = self._settings.add_bos_token
        options: dict[str, Any] = {} if added is None else {"add_special_tokens": added}
        if prompts[0].is_bare:
            options = {"add_special_tokens": False}
        try:
            found = self._processor(
                text=[prompt.text for prompt in prompts],
                images=[list(some) for some in images],
                padding="longest",
                return_tensors="pt",
                **options,
            )
        # Processors raise many kinds of exceptions, which all mean the same here.
        except Exception as error:
            n = plural(len(prompts[0].images), "image")
            raise DocumentError(
                f"the model's processor refuses the prompt: {first_line(error)}\n"
                "  fix: write one <image> an image into the prompt "
                f"(the document has {n})"
            ) from error
        tensors = {k: v for k, v in found.items() if isinstance(v, Tensor)}
        tensors.pop("labels", None)
        return EncodedPrompts(tensors)

    def _render(self, chat: Sequence[Message]) -> str:
        return render_chat(self._processor, chat, self._settings.template_args)

    def _placeholder(self, config: Any) -> str:
        """As in lm-eval 0.4.13: the string of the config's image token. If the
        processor does not accept it, the one of the chat template."""
        if self._settings.image_string:
            return self._settings.image_string
        named = [
            self._settings.image_token_id,
            getattr(config, "image_token_id", None),
            getattr(config, "image_token_index", None),
        ]
        token = next((one for one in named if one), None)
        found = "" if token is None else str(self._tokenizer.decode([token]))
        is_chosen = bool(self._settings.image_token_id)
        if is_chosen or (found and self._accepts(found)):
            return found
        return self._of_template(found)

    def _of_template(self, found: str) -> str:
        content: Any = [*text_parts("a"), {"type": "image"}, *text_parts("b")]
        try:
            text = self._render([Message("user", content)])
        except DocumentError:
            return found
        between = text.partition("a")[2].rpartition("b")[0].strip()
        return between if between and self._accepts(between) else found

    def _accepts(self, placeholder: str) -> bool:
        from PIL import Image

        image = Image.new("RGB", (64, 64), "gray")
        prompt = ImagePrompt(f"a {placeholder} b", (), False)
        try:
            self.encode([prompt], [[image]])
        except DocumentError:
            return False
        return True


def on_device(
    tensors: Mapping[str, Tensor], device: torch.device, dtype: torch.dtype
) -> dict[str, Tensor]:
    """The tensors on a device, with floating-point ones in the model's type."""
    return {
        name: value.to(device, dtype) if value.is_floating_point() else value.to(device)
        for name, value in tensors.items()
    }
