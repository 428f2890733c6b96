"""Files of images: their format, their size in pixels from the header alone, and limits
on both, so that no image is decoded."""

from __future__ import annotations

import re
import struct
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from functools import lru_cache
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from pytest_evals.errors import DocumentError

MAX_BYTES = 20 * 2**20  # maximum size of an image's file
MAX_PIXELS = 50_000_000
"""Maximum width times height of an image: a file of a few kilobytes may otherwise take
gigabytes where it is decoded."""
FORMATS = ("PNG", "JPEG", "GIF", "WEBP")
"""Formats that Pillow may decode: parsers of others have had security faults."""
_URL = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,([A-Za-z0-9+/]+={0,2})")


class ImageSize(NamedTuple):
    """Width and height in pixels."""

    width: int
    height: int


def media_type(raw: bytes) -> str | None:
    """Return ``image/png``, ``image/jpeg``, ``image/gif`` or ``image/webp`` by the
    first bytes of a file; ``None`` for others."""
    match = next((kind for start, kind in _STARTS.items() if raw.startswith(start)), "")
    is_other = match == "image/webp" and raw[8:12] != b"WEBP"
    return None if is_other else match or None


_STARTS: Mapping[bytes, str] = {
    b"\x89PNG": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"RIFF": "image/webp",
}


class RowImage:
    """An image of a row, equal to others with its content.

    Its string is a ``data:`` URL, which is encoded each time: models on this machine
    do not need it.

    Args:
        content: A PIL image, not to be changed, or the bytes of a file.
        digest: SHA-256 of the file; of a PIL image, of its pixels with their mode,
            size, palette and transparent colour.
        n_bytes: Its size in memory.
    """

    __slots__ = ("content", "digest", "n_bytes")

    def __init__(self, given: Any) -> None:
        """Create an image. ``given``: a PIL image, the bytes of a file, or an undecoded
        image of the ``datasets`` library. Raises DocumentError if it is another value,
        or its file is broken."""
        if isinstance(given, Mapping) and isinstance(given.get("bytes"), bytes):
            given = given["bytes"]
        self.content = given
        shown, raw = (b"", given) if isinstance(given, bytes) else _pixels(given)
        self.digest = sha256(shown + raw).hexdigest()
        self.n_bytes = len(raw)

    def __str__(self) -> str:
        raw = self.content if isinstance(self.content, bytes) else _png(self.content)
        mime = media_type(raw) or "image/png"
        return f"data:{mime};base64,{b64encode(raw).decode('ascii')}"

    def __repr__(self) -> str:
        return f"<image {self.digest[:16]}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RowImage) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)


def is_pil_image(value: Any) -> bool:
    """Whether a value is an image of Pillow, which is not imported."""
    return hasattr(value, "save") and hasattr(value, "mode")


def _pixels(image: Any) -> tuple[bytes, bytes]:
    """What changes the meaning of pixels, and the pixels."""
    if not is_pil_image(image):
        raise DocumentError(f"an image must be a PIL image or bytes, not {image!r:.80}")
    try:
        pixels = image.tobytes()  # decodes a file that was only opened
    except (OSError, SyntaxError, ValueError) as error:
        raise DocumentError(f"the image cannot be decoded: {error}") from None
    transparent = image.info.get("transparency")
    shown = (image.mode, image.size, image.getpalette(), transparent)
    return repr(shown).encode(), pixels


def _png(image: Any) -> bytes:
    buffer = BytesIO()
    try:
        image.save(buffer, format="PNG")
    except OSError:  # PNG does not support every mode, for example CMYK
        image.convert("RGB").save(buffer, format="PNG")
    return buffer.getvalue()


def is_data_url(source: str) -> bool:
    """Whether a source is a URL with its data, and not a path."""
    return source.startswith("data:")


def check_image(source: str | bytes) -> None:
    """Check an image: a path, a ``data:`` URL, or the bytes of a file. Raises
    DocumentError if it is missing, has another format or exceeds a limit."""
    if isinstance(source, bytes):
        _check(BytesIO(source), len(source), "the image", is_file=False)
        return
    if is_data_url(source):
        raw = _decoded(source)
        _check(BytesIO(raw), len(raw), "the image of a data: URL", is_file=False)
        return
    path = Path(source)
    try:
        with path.open("rb") as stream:
            _check(stream, path.stat().st_size, f"{path.name!r}")
    except (OSError, ValueError) as error:
        raise DocumentError(f"cannot read {source!r}: {_why(error)}") from None


def _check(stream: BinaryIO, n_bytes: int, name: str, *, is_file: bool = True) -> None:
    if n_bytes > MAX_BYTES:
        raise DocumentError(
            f"{name} has {n_bytes:,} bytes; an image may have {MAX_BYTES:,}"
        )
    kind = media_type(stream.read(16))
    if kind is None:
        raise DocumentError(f"{name} is not a PNG, JPEG, GIF or WebP file")
    stream.seek(0)
    size = _SIZES[kind](stream)
    if size is None:
        if is_file:
            raise DocumentError(f"{name} is a broken {kind} file")
        return
    check_size(size, name)


def check_size(size: tuple[int, int], name: str) -> None:
    """Check the width and height of an image; ``name`` is for messages. Raises
    DocumentError if it has too many pixels."""
    width, height = size
    if width * height > MAX_PIXELS:
        raise DocumentError(
            f"{name} has {width:,} x {height:,} pixels; an image may have "
            f"{MAX_PIXELS:,}"
        )


def image_digest(source: str) -> str:
    """Return the SHA-256 of an image's file in hexadecimal. Raises DocumentError if it
    cannot be read."""
    if is_data_url(source):
        return sha256(_decoded(source)).hexdigest()
    try:
        found = Path(source).stat()
    except OSError as error:
        raise DocumentError(f"cannot read {source!r}: {_why(error)}") from None
    return _file_digest(source, found.st_mtime_ns, found.st_size)


@lru_cache(65_536)
def _file_digest(source: str, mtime_ns: int, n_bytes: int) -> str:
    return sha256(_read(source)).hexdigest()


def image_url(source: str, digest: str) -> str:
    """Return an image as a ``data:`` URL. Raises DocumentError if it cannot be read, or
    is not the image with this digest."""
    if is_data_url(source):
        return source
    raw = image_bytes(source, digest)
    return f"data:{media_type(raw)};base64,{b64encode(raw).decode('ascii')}"


def image_bytes(source: str, digest: str) -> bytes:
    """Return the file of an image; raises as :func:`image_url`."""
    if is_data_url(source):
        return _decoded(source)
    raw = _read(source)
    if sha256(raw).hexdigest() != digest:
        raise DocumentError(f"{source!r} has changed since the run began")
    return raw


def _read(source: str) -> bytes:
    try:
        return Path(source).read_bytes()
    except OSError as error:
        raise DocumentError(f"cannot read {source!r}: {_why(error)}") from None


def _decoded(url: str) -> bytes:
    match = _URL.fullmatch(url)
    try:
        return b64decode(match[1], validate=True) if match else _refused(url)
    except ValueError:
        return _refused(url)


def _refused(url: str) -> bytes:
    raise DocumentError(
        f"{url[:60]!r} is not a data: URL of a PNG, JPEG, GIF or WebP file in base64\n"
        "  fix: {type: image, path: photo.png}"
    )


def _why(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def image_size(stream: BinaryIO) -> ImageSize | None:
    """Return the size of an image, from its header; ``None`` if that is broken."""
    kind = media_type(stream.read(16))
    stream.seek(0)
    return None if kind is None else _SIZES[kind](stream)


def _png_size(stream: BinaryIO) -> ImageSize | None:
    """PNG, third edition, 11.2.1: the first chunk is IHDR."""
    head = stream.read(24)
    if len(head) < 24 or head[12:16] != b"IHDR":
        return None
    return ImageSize(*struct.unpack(">II", head[16:24]))


def _gif_size(stream: BinaryIO) -> ImageSize | None:
    """GIF89a, 18: the logical screen."""
    head = stream.read(10)
    return ImageSize(*struct.unpack("<HH", head[6:10])) if len(head) == 10 else None


def _webp_size(stream: BinaryIO) -> ImageSize | None:
    """WebP container (RFC 9649): VP8X has the canvas, VP8 and VP8L one frame."""
    head = stream.read(30)
    if len(head) < 25:
        return None
    kind = head[12:16]
    if kind == b"VP8X" and len(head) == 30:
        sides = (int.from_bytes(head[at : at + 3], "little") + 1 for at in (24, 27))
        return ImageSize(*sides)
    if kind == b"VP8L" and head[20] == 0x2F:
        bits = int.from_bytes(head[21:25], "little")
        return ImageSize((bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1)
    if kind == b"VP8 " and len(head) == 30 and head[23:26] == b"\x9d\x01\x2a":
        width, height = struct.unpack("<HH", head[26:30])
        return ImageSize(width & 0x3FFF, height & 0x3FFF)
    return None


def _jpeg_size(stream: BinaryIO) -> ImageSize | None:
    """JPEG (ITU-T T.81, B.1.1): segments up to the first frame header."""
    stream.seek(2)
    while True:
        mark = stream.read(2)
        if len(mark) < 2 or mark[0] != 0xFF:
            return None
        if mark[1] == 0xFF:  # a fill byte
            stream.seek(-1, 1)
            continue
        head = stream.read(2)
        if len(head) < 2:
            return None
        if mark[1] in _FRAMES:
            frame = stream.read(5)
            if len(frame) < 5:
                return None
            height, width = struct.unpack(">HH", frame[1:])
            return ImageSize(width, height)
        length = int.from_bytes(head, "big")
        if length < 2:
            return None
        stream.seek(length - 2, 1)


_FRAMES = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})
_SIZES: Mapping[str, Callable[[BinaryIO], ImageSize | None]] = {
    "image/png": _png_size,
    "image/jpeg": _jpeg_size,
    "image/gif": _gif_size,
    "image/webp": _webp_size,
}
