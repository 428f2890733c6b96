"""Small images of prompts, embedded in the page up to a limit.

Samples files have the paths and hashes of images in files. A file that has changed
since the run, or was deleted, is not shown. Of images in the rows of a dataset, samples
files have the small images, if the run writes a page.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from pytest_evals.core.request import Request, images_of
from pytest_evals.data.images import (
    FORMATS,
    RowImage,
    check_image,
    image_digest,
    media_type,
)
from pytest_evals.errors import DocumentError

SIDE = 240
"""Longest side in pixels."""
LARGEST = 40_000
"""Maximum bytes of an image."""
MOST = 4 * 2**20
"""Maximum bytes of all images in a page."""


class Thumbnails:
    """The images of a page."""

    def __init__(self, folders: Sequence[Path] = ()) -> None:
        """Create a page's images. ``folders``: where paths may begin."""
        self._folders = folders
        self._known: dict[str, bytes] = {}
        self._left = MOST

    def of(self, image: Mapping[str, Any]) -> str:
        """Return an image of a samples file as a ``data:`` URL; empty if its file is
        not there, or the page has too many."""
        digest, name = str(image.get("sha256")), str(image.get("path") or "")
        if digest not in self._known:
            self._known[digest] = self._small(name, digest)
        raw = self._known[digest]
        if not raw or len(raw) > self._left:
            return ""
        self._left -= len(raw)
        return _data_url(raw)

    def _small(self, name: str, digest: str) -> bytes:
        path = PurePosixPath(name)
        if not name or path.is_absolute() or ".." in path.parts:
            return b""
        for folder in self._folders:
            source = folder / path
            try:
                check_image(str(source))
                if image_digest(str(source)) == digest:
                    with source.open("rb") as file:
                        return _shrunk(file, source.stat().st_size)
            except (DocumentError, OSError):
                continue
        return b""


class DatasetThumbnails:
    """Small images of rows of a run, until they have as many bytes as a page may."""

    def __init__(self) -> None:
        self._left = MOST

    def of(self, requests: Sequence[Request]) -> dict[str, str]:
        """Return the images of requests as ``data:`` URLs, by their digests."""
        images = {
            one.digest: one
            for request in requests
            for _, listed in images_of(request)
            for one in listed
            if isinstance(one, RowImage)
        }
        found = {}
        for digest, image in images.items():
            raw = _of_content(image.content) if self._left > 0 else b""
            self._left -= len(raw)
            if raw:
                found[digest] = _data_url(raw)
        return found


def _of_content(content: Any) -> bytes:
    if isinstance(content, bytes):
        return _shrunk(BytesIO(content), len(content))
    # Reducing changes the image, which a model may still need.
    return _jpeg(content.resize(_fitting(content.size)))


def _fitting(size: tuple[int, int]) -> tuple[int, int]:
    share = min(1.0, SIDE / max(size))
    return max(1, round(size[0] * share)), max(1, round(size[1] * share))


def _data_url(raw: bytes) -> str:
    return f"data:{media_type(raw)};base64,{b64encode(raw).decode('ascii')}"


def _shrunk(file: BinaryIO, size: int) -> bytes:
    """A small image as JPEG; the file itself if Pillow is missing and it is small."""
    if not _has_pillow():
        return file.read() if size <= LARGEST else b""
    from PIL import Image, ImageOps

    try:
        with Image.open(file, formats=FORMATS) as image:
            image.draft("RGB", (SIDE, SIDE))
            image.thumbnail((SIDE, SIDE))
            return _jpeg(ImageOps.exif_transpose(image))
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return b""


def _jpeg(image: Any) -> bytes:
    """An image of Pillow as JPEG on white; empty if it is too large."""
    from PIL import Image

    try:
        rgba = image.convert("RGBA")
    except ValueError:
        rgba = image.convert("RGB").convert("RGBA")
    found = Image.new("RGB", rgba.size, "white")
    found.paste(rgba, mask=rgba)
    buffer = BytesIO()
    found.save(buffer, "JPEG", quality=75)
    raw = buffer.getvalue()
    return raw if len(raw) <= LARGEST else b""


@cache
def _has_pillow() -> bool:
    return find_spec("PIL") is not None
