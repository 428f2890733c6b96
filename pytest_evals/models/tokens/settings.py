"""Arguments of model specs about the tokenizer and images; those about images are those
of lm-eval 0.4.13's ``hf-multimodal``. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pytest_evals.errors import OptionError
from pytest_evals.models.folders import (
    NO_TOOLS,
    check_folder,
    ignores_tools,
    lacks_image_processor,
)
from pytest_evals.models.registry import TaskRequirements
from pytest_evals.models.spec import Arguments, argument, whole

_THINKS = (
    "enable_thinking=true: the model's reasoning follows the prompt, and a task scores "
    "its continuations there\n  fix: leave enable_thinking out"
)
_NO_IMAGES = (
    "the {}: model reads texts (it has no preprocessor_config.json), and a task shows "
    "images\n  fix: choose an image-text-to-text model, or leave the task out with -k "
    "or --evals-tasks"
)
TOKENIZATIONS = ("lm_eval", "lighteval")
_COUNT = whole(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerSettings:
    """Where a model's tokenizer is, and its rules; the fields are arguments."""

    target: str  # Folder of the model, or its name on the Hub
    revision: str = argument(Arguments.text, "")  # Branch, tag or commit on the Hub
    trust_remote_code: bool = argument(Arguments.flag, False)
    """Whether code that comes with the model may run."""
    tokenizer: str = argument(Arguments.text, "")  # Folder or name of another tokenizer
    add_bos_token: bool | None = argument(Arguments.flag, None)
    """Whether texts get the tokenizer's special tokens; ``None`` for the tokenizer's
    default. ``False`` leaves P(BOS | BOS) out of the rolling log-likelihood, which lm-
    eval's contains."""
    tokenization: str = "lm_eval"
    """Rules for special tokens and for the boundary between a context and its
    continuation: those of lm-eval, or of lighteval's transformers backend."""
    prefix_token_id: int | None = argument(whole(0), None)
    """The token before a text without context; ``None`` for BOS, else EOS."""
    chat_template_args: Mapping[str, Any] = argument(Arguments.mapping, {})
    """Arguments of the chat template, such as ``{"enable_thinking": false}``."""
    enable_thinking: bool | None = argument(Arguments.flag, None)
    """The one of them that most want; ``None`` for what the template does by
    default."""
    think_end_token: str = argument(Arguments.text, "")
    """Text, or the id of a token, that ends the model's thinking: the answer is what
    comes after its last occurrence. Empty for none."""

    @property
    def template_args(self) -> Mapping[str, Any]:
        """All arguments of the chat template."""
        if self.enable_thinking is None:
            return self.chat_template_args
        return {**self.chat_template_args, "enable_thinking": self.enable_thinking}


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageSettings(TokenizerSettings):
    """The tokenizer, and how images become part of prompts, as arguments."""

    max_images: int = argument(_COUNT, 999)  # Maximum number of images in a request
    interleave: bool = argument(Arguments.flag, True)
    """Whether images of lm-eval's chats stay at ``<image>``; else they come first."""
    convert_img_format: bool = argument(Arguments.flag, False)  # Whether to RGB
    image_token_id: int | None = argument(whole(0), None)
    """The placeholder token of an image; ``None`` for the one in the config."""
    image_string: str = argument(Arguments.text, "")
    """The placeholder string of an image, instead of that token's."""
    min_pixels: int = argument(_COUNT, 0)
    """Fewest pixels of an image, for processors that resize to it; 0 for their
    default."""
    max_pixels: int = argument(_COUNT, 0)  # As ``min_pixels``
    image_width: int = argument(_COUNT, 0)  # Larger images are reduced; 0 for no limit
    image_height: int = argument(_COUNT, 0)  # As ``image_width``
    image_max_side: int = argument(_COUNT, 0)
    """Length to which the longer side of larger images is reduced; 0 for no limit."""

    @property
    def pixel_limits(self) -> dict[str, int]:
        """Arguments of processors."""
        given = {"min_pixels": self.min_pixels, "max_pixels": self.max_pixels}
        return {name: value for name, value in given.items() if value}

    def check(self, kind: str) -> None:
        """Raise ``OptionError`` if the arguments contradict each other."""
        if self.image_max_side and (self.image_width or self.image_height):
            raise OptionError(
                f"the {kind} model takes one of image_max_side and image_width or "
                "image_height: both choose the size"
            )
        if self.enable_thinking and not self.think_end_token:
            raise OptionError(
                f"the {kind} model's enable_thinking needs think_end_token, the text "
                "that ends the thinking, such as '</think>': the answer begins behind "
                "it"
            )

    def check_folders(self) -> None:
        """Raise ``OptionError`` if a local path holds no model or tokenizer."""
        check_folder(self.target)
        if self.tokenizer:
            check_folder(self.tokenizer, needed="tokenizer_config.json")

    def why_unfit(self, kind: str, needs: TaskRequirements) -> str:
        """Why the model cannot run a task; empty if it can."""
        if needs.images and lacks_image_processor(self.target):
            return _NO_IMAGES.format(kind)
        if needs.tools and ignores_tools(self.tokenizer or self.target):
            return NO_TOOLS
        is_scored = needs.output_type in ("loglikelihood", "multiple_choice")
        return _THINKS if self.enable_thinking and needs.chat and is_scored else ""
