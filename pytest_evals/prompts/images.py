"""Images of a document as a request carries them: ``data:`` URLs among the options of
a ``Generate``, under :data:`IMAGES`. Models that take no images know no such option."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from io import BytesIO
from typing import Any

from pytest_evals.core.request import IMAGES
from pytest_evals.errors import DocumentError

__all__ = ["IMAGES", "data_url", "without_images"]

_MIME = {b"\x89PNG": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif"}
"""First bytes → kind of file."""


def data_url(image: Any) -> str:
    """An image as a URL that holds it.

    Args:
        image: A PIL image, the bytes of a file, or a row of the ``datasets`` library
            that is not decoded.

    Raises:
        DocumentError: It is none of these.
    """
    raw = _bytes(image)
    mime = next((m for start, m in _MIME.items() if raw.startswith(start)), "image/png")
    return f"data:{mime};base64,{b64encode(raw).decode('ascii')}"


def without_images(value: Any) -> Any:
    """A value of a row with words for each image in it, the same in every process."""
    if isinstance(value, Mapping):
        return {key: without_images(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [without_images(inner) for inner in value]
    if _is_picture(value):
        return f"<image {sha256(_bytes(value)).hexdigest()[:16]}>"
    return value


def _is_picture(value: Any) -> bool:
    return hasattr(value, "save") and hasattr(value, "mode")


def _bytes(image: Any) -> bytes:
    if isinstance(image, bytes):
        return image
    if isinstance(image, Mapping) and isinstance(image.get("bytes"), bytes):
        found: bytes = image["bytes"]
        return found
    if not hasattr(image, "save"):
        raise DocumentError(f"an image is a PIL image or bytes, not {image!r:.80}")
    buffer = BytesIO()
    image.save(buffer, format="PNG")
    return buffer.getvalue()
