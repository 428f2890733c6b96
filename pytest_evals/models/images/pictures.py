"""The images of a batch: decoded once, resized as in lm-eval 0.4.13."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from pytest_evals.data.picture_decoding import decoded_picture
from pytest_evals.data.pictures import RowImage, picture_digest
from pytest_evals.models.images.settings import ImageSettings


class ImageFile(NamedTuple):
    """An image of a request."""

    source: str | RowImage  # Path, ``data:`` URL, or image of a row
    digest: str  # SHA-256 of the content
    name: str  # For messages

    @staticmethod
    def of(source: str | RowImage, number: int) -> ImageFile:
        """The image of a row or a ``data:`` URL, the request's ``number``-th.

        Raises:
            DocumentError: The URL is invalid.
        """
        digest = picture_digest(source) if isinstance(source, str) else source.digest
        return ImageFile(source, digest, f"image {number}")


class ImageCache:
    """Decoded images of the current batch and of the one before."""

    def __init__(self, settings: ImageSettings) -> None:
        self._settings = settings
        self._images: dict[str, Any] = {}

    def images(self, files: Iterable[ImageFile]) -> list[Any]:
        """PIL images, not to be changed.

        Raises:
            DocumentError: One cannot be read or exceeds a limit.
        """
        found = []
        for file in files:
            if file.digest not in self._images:
                image = decoded_picture(*file)
                self._images[file.digest] = _prepared(image, self._settings)
            found.append(self._images[file.digest])
        return found

    def keep(self, batches: Sequence[Iterable[ImageFile]]) -> None:
        """Release all images but those of these batches."""
        used = {file.digest for files in batches for file in files}
        self._images = {k: v for k, v in self._images.items() if k in used}


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
