"""Arguments of model specs about the tokenizer. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pytest_evals.errors import OptionError
from pytest_evals.models.registry import TaskRequirements
from pytest_evals.models.spec import Arguments, argument, whole

_THINKS = (
    "enable_thinking=true: the model's reasoning follows the prompt, and a task scores "
    "its continuations there\n  fix: leave enable_thinking out"
)
TOKENIZATIONS = ("lm_eval", "lighteval")


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerSettings:
    """Where a model's tokenizer is, and its rules; the fields are arguments."""

    target: str  # Folder of the model, or its name on the Hub
    revision: str = argument(Arguments.text, "")
    """Branch, tag or commit on the Hub; empty for the default branch."""
    trust_remote_code: bool = argument(Arguments.flag, False)
    """Whether code that comes with the model may run."""
    tokenizer: str = argument(Arguments.text, "")
    """Folder or name of another tokenizer; empty for the model's own."""
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


def check_thinking(kind: str, settings: TokenizerSettings) -> None:
    """Check that an answer can be separated from the thinking before it."""
    if settings.enable_thinking and not settings.think_end_token:
        raise OptionError(
            f"the {kind} model's enable_thinking needs think_end_token, the text that "
            "ends the thinking, such as '</think>': the answer begins behind it"
        )


def why_thinking_unfit(settings: TokenizerSettings, needs: TaskRequirements) -> str:
    """Why a model that thinks before it answers cannot run a task; empty if it can."""
    scored = needs.chat and needs.output_type in ("loglikelihood", "multiple_choice")
    return _THINKS if scored and settings.enable_thinking else ""


_COUNT = whole(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageSettings(TokenizerSettings):
    """The tokenizer, and how images become part of prompts; the fields are
    arguments."""

    max_images: int = argument(_COUNT, 999)  # Maximum number of images in a request
    interleave: bool = argument(Arguments.flag, True)
    """Whether images of lm-eval's chats stay at ``<image>``; else they come first."""
    convert_img_format: bool = argument(Arguments.flag, False)
    """Whether images are converted to RGB."""
    image_token_id: int | None = argument(whole(0), None)
    """The placeholder token of an image; ``None`` for the one in the config."""
    image_string: str = argument(Arguments.text, "")
    """The placeholder string of an image, instead of that token's."""
    min_pixels: int = argument(_COUNT, 0)
    """Fewest pixels of an image, for processors that resize to it; 0 for their
    default."""
    max_pixels: int = argument(_COUNT, 0)  # As ``min_pixels``
    image_width: int = argument(_COUNT, 0)
    """Width to which larger images are reduced; 0 for no limit."""
    image_height: int = argument(_COUNT, 0)  # As ``image_width``
    image_max_side: int = argument(_COUNT, 0)
    """Length to which the longer side of larger images is reduced; 0 for no limit."""

    @property
    def pixel_limits(self) -> dict[str, int]:
        """Arguments of processors."""
        given = {"min_pixels": self.min_pixels, "max_pixels": self.max_pixels}
        return {name: value for name, value in given.items() if value}


def check_images(kind: str, settings: ImageSettings) -> None:
    """Check that the arguments do not contradict each other. Raises ``OptionError`` if
    they do."""
    if settings.image_max_side and (settings.image_width or settings.image_height):
        raise OptionError(
            f"the {kind} model takes one of image_max_side and image_width or "
            "image_height: both choose the size"
        )
