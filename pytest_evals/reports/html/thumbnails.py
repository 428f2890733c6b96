"""Small images of the files in prompts, embedded in the page up to a limit.

Samples files have the paths and hashes of images. A file that has changed since the
run, or was deleted, is not shown.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import Any

from pytest_evals.data.images import FORMATS, check_image, image_digest, media_type
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
        return f"data:{media_type(raw)};base64,{b64encode(raw).decode('ascii')}"

    def _small(self, name: str, digest: str) -> bytes:
        path = PurePosixPath(name)
        if not name or path.is_absolute() or ".." in path.parts:
            return b""
        for folder in self._folders:
            source = folder / path
            try:
                check_image(str(source))
                if image_digest(str(source)) == digest:
                    return _shrunk(source)
            except (DocumentError, OSError):
                continue
        return b""


def _shrunk(path: Path) -> bytes:
    """A small image as JPEG; the file itself if Pillow is missing and it is small."""
    if not _has_pillow():
        return path.read_bytes() if path.stat().st_size <= LARGEST else b""
    from PIL import Image, ImageOps

    try:
        with Image.open(path, formats=FORMATS) as image:
            image.draft("RGB", (SIDE, SIDE))
            image.thumbnail((SIDE, SIDE))
            rgba = ImageOps.exif_transpose(image).convert("RGBA")
            found = Image.new("RGB", rgba.size, "white")
            found.paste(rgba, mask=rgba)
            buffer = BytesIO()
            found.save(buffer, "JPEG", quality=75)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return b""
    raw = buffer.getvalue()
    return raw if len(raw) <= LARGEST else b""


@cache
def _has_pillow() -> bool:
    return find_spec("PIL") is not None
