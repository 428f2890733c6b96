"""Encodes images of a document as ``data:`` URLs in the options of a ``Generate``
request. Models without image support ignore that option."""

from __future__ import annotations

import ast
import os
from base64 import b64encode
from collections.abc import Callable, Collection, Mapping, Sequence
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

from pytest_evals.data.calls import FieldError
from pytest_evals.data.pictures import check_picture, media_type
from pytest_evals.errors import DocumentError
from pytest_evals.prompts.fields import Field, Row, bind


def image_reader(
    field: Field, columns: Collection[str], base: Path
) -> Callable[[Row], tuple[str, ...]]:
    """Return a function that reads the images of a row.

    As in lm-eval 0.4.13 (``api/task.py``, ``doc_to_image``): a column, a template of a
    Python literal, a function, or a list of these, in which ``None`` is skipped. A
    single image is accepted as a list, and a template may render a path.
    """
    specs = field.spec if isinstance(field.spec, list) else [field.spec]
    readers = [
        bind(
            Field(key=field.key, spec=spec, place=field.place),
            columns,
            _literal
            if isinstance(spec, str) and spec.isidentifier()
            else _literal_or_path,
        )
        for spec in specs
        if isinstance(spec, str) or callable(spec)
    ]

    def read(row: Row) -> tuple[str, ...]:
        try:
            return image_urls([one(row) for one in readers], base)
        except FieldError:
            raise
        except DocumentError as error:
            raise FieldError(f"{field.key}: {error}", field.place) from None

    return read


def image_urls(given: Any, base: Path) -> tuple[str, ...]:
    """Return an image, or all images of a nested list, as URLs. ``given``: as for
    :func:`data_url`, or the path of a file; ``None`` for no image."""
    if given is None:
        return ()
    if isinstance(given, Sequence) and not isinstance(given, str | bytes):
        return tuple(url for one in given for url in image_urls(one, base))
    if isinstance(given, Mapping) and not isinstance(given.get("bytes"), bytes):
        given = given.get("path", given)
    if not isinstance(given, str):
        return (data_url(given),)
    try:
        path = base / Path(os.path.expanduser(given))
        path.stat()
    except (OSError, ValueError) as error:
        raise DocumentError(f"image not found at {given!r}: {error}") from None
    # Security: the dataset chooses the path, so only images may be sent.
    check_picture(str(path))
    return (data_url(path.read_bytes()),)


def data_url(image: Any) -> str:
    """Return an image as a ``data:`` URL. ``image`` is a PIL image, the bytes of a
    file, or an undecoded image of the ``datasets`` library."""
    raw = _bytes(image)
    mime = media_type(raw) or "image/png"
    return f"data:{mime};base64,{b64encode(raw).decode('ascii')}"


def without_images(value: Any) -> Any:
    """Return a row's value with images as digests, equal in every process."""
    if isinstance(value, Mapping):
        if isinstance(value.get("bytes"), bytes) and value.keys() == {"bytes", "path"}:
            return _digest_text(value)
        return {key: without_images(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [without_images(inner) for inner in value]
    return _digest_text(value) if _is_picture(value) else value


def _digest_text(image: Any) -> str:
    return f"<image {sha256(_bytes(image)).hexdigest()[:16]}>"


def _literal(text: str) -> Any:
    """Return the Python literal of a text.

    Raises:
        ValueError: It is not a literal.
    """
    try:
        return ast.literal_eval(text)
    except (SyntaxError, TypeError, MemoryError, RecursionError):
        raise ValueError(f"{text!r:.60} is not a literal") from None


def _literal_or_path(text: str) -> Any:
    try:
        return _literal(text)
    except ValueError:
        return text


def _is_picture(value: Any) -> bool:
    return hasattr(value, "save") and hasattr(value, "mode")


def _bytes(image: Any) -> bytes:
    if isinstance(image, bytes):
        return image
    if isinstance(image, Mapping) and isinstance(image.get("bytes"), bytes):
        match: bytes = image["bytes"]
        return match
    if not hasattr(image, "save"):
        raise DocumentError(f"an image must be a PIL image or bytes, not {image!r:.80}")
    buffer = BytesIO()
    try:
        image.save(buffer, format="PNG")
    except OSError:  # PNG does not support every mode, for example CMYK
        image.convert("RGB").save(buffer, format="PNG")
    return buffer.getvalue()
