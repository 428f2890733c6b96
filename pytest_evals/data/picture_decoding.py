"""Decoding of images with Pillow, which is imported only here and for the first
image."""

from __future__ import annotations

import warnings
from io import BytesIO
from typing import Any

from pytest_evals.data.pictures import (
    MAX_PIXELS,
    RowImage,
    check_picture,
    picture_bytes,
)
from pytest_evals.errors import DocumentError, MissingExtraError

FORMATS = ("PNG", "JPEG", "GIF", "WEBP")
"""Formats that are decoded: parsers of others have had security faults."""


def decoded_picture(source: str | RowImage, digest: str, name: str) -> Any:
    """Return a PIL image in its own mode, upright by its EXIF orientation as in the
    ``datasets`` library; of an animation the first frame. A PIL image is returned as it
    is.

    Args:
        source: A path, a ``data:`` URL, or an image of a row.
        digest: SHA-256 of a file; empty for a URL.
        name: The image in messages.

    Raises:
        DocumentError: It is missing, broken, has changed, or exceeds a limit.
        MissingExtraError: Pillow is missing.
    """
    try:
        from PIL import Image, ImageOps
    except ImportError:
        raise MissingExtraError("a document with images", "Pillow", "images") from None
    given = source.content if isinstance(source, RowImage) else source
    if not isinstance(given, str | bytes):
        _check_pixels(given, name)
        return given
    check_picture(given)  # by the header alone
    raw = given if isinstance(given, bytes) else picture_bytes(given, digest)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(BytesIO(raw), formats=FORMATS) as image:
                _check_pixels(image, name)
                image.load()
                upright = ImageOps.exif_transpose(image)
                return upright if upright is not image else image.copy()
    except DocumentError:
        raise
    # Decoders raise many kinds of exceptions for broken files.
    except Exception as error:  # noqa: BLE001
        text = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DocumentError(f"{name} cannot be decoded: {text}") from None


def _check_pixels(image: Any, name: str) -> None:
    if image.width * image.height > MAX_PIXELS:
        raise DocumentError(
            f"{name} has {image.width:,} x {image.height:,} pixels; an image may have "
            f"{MAX_PIXELS:,}"
        )
