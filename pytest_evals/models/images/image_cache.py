"""The images of a batch: decoded once with Pillow, which is imported for the first one,
and resized as in lm-eval 0.4.13."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from io import BytesIO
from typing import Any, NamedTuple

from pytest_evals.data.images import (
    FORMATS,
    RowImage,
    check_image,
    check_size,
    image_bytes,
    image_digest,
)
from pytest_evals.errors import DocumentError, MissingExtraError
from pytest_evals.models.tokens.settings import ImageSettings


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
    """Decoded images of the current batch and of the one before."""

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
