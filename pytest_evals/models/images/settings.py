"""Arguments of model specs about images: those of lm-eval 0.4.13's ``hf-multimodal``.
Standard library only."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_evals.errors import OptionError
from pytest_evals.models.spec import Arguments, argument, whole
from pytest_evals.models.tokens.settings import TokenizerSettings

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
    """Check that the arguments do not contradict each other.

    Raises:
        OptionError: They do.
    """
    if settings.image_max_side and (settings.image_width or settings.image_height):
        raise OptionError(
            f"the {kind} model takes one of image_max_side and image_width or "
            "image_height: both choose the size"
        )
