"""Reads the images of a document for the options of its requests."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_evals.core.request import Request, images_of
from pytest_evals.data.calls import FieldError
from pytest_evals.data.images import RowImage, check_image, is_pil_image
from pytest_evals.errors import DocumentError
from pytest_evals.prompts.fields import Field, Row, bind


def image_reader(
    field: Field, columns: Collection[str], base: Path
) -> Callable[[Row], tuple[RowImage, ...]]:
    """Return a function that reads the images of a row. As in lm-eval 0.4.13
    (``api/task.py``, ``doc_to_image``): a column, a template of a Python literal, a
    function, or a list of these, in which ``None`` is skipped. A single image is
    accepted as a list, and a template may render a path."""
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

    def read(row: Row) -> tuple[RowImage, ...]:
        try:
            return row_images([one(row) for one in readers], base)
        except FieldError:
            raise
        except DocumentError as error:
            raise FieldError(f"{field.key}: {error}", field.place) from None

    return read


def row_images(given: Any, base: Path) -> tuple[RowImage, ...]:
    """Return an image, or all images of a nested list. ``given``: as for
    :class:`RowImage`, or the path of a file; ``None`` for no image."""
    if given is None:
        return ()
    if isinstance(given, Sequence) and not isinstance(given, str | bytes):
        return tuple(found for one in given for found in row_images(one, base))
    if isinstance(given, Mapping) and not isinstance(given.get("bytes"), bytes):
        given = given.get("path", given)
    if not isinstance(given, str):
        return (RowImage(given),)
    try:
        path = base / Path(os.path.expanduser(given))
        path.stat()
    except (OSError, ValueError) as error:
        raise DocumentError(f"image not found at {given!r}: {error}") from None
    # Security: the dataset chooses the path, so only images may be sent.
    check_image(str(path))
    return (RowImage(path.read_bytes()),)


def without_images(value: Any, requests: Sequence[Request] = ()) -> Any:
    """Return a row's value with images as digests, equal in every process. ``requests``
    of the row have the digests of their images, which are not computed again."""
    options = dict(images_of(requests[0])) if requests else {}
    listed = (one for images in options.values() for one in images)
    known = {id(one.content): one for one in listed if isinstance(one, RowImage)}
    return _without_images(value, known)


def _without_images(value: Any, known: Mapping[int, RowImage]) -> Any:
    if isinstance(value, Mapping):
        if isinstance(value.get("bytes"), bytes) and value.keys() == {"bytes", "path"}:
            return repr(known.get(id(value["bytes"])) or RowImage(value))
        return {key: _without_images(inner, known) for key, inner in value.items()}
    if isinstance(value, list):
        return [_without_images(inner, known) for inner in value]
    if is_pil_image(value):
        return repr(known.get(id(value)) or RowImage(value))
    return value


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (SyntaxError, TypeError, MemoryError, RecursionError):
        raise ValueError(f"{text!r:.60} is not a literal") from None


def _literal_or_path(text: str) -> Any:
    try:
        return _literal(text)
    except ValueError:
        return text
