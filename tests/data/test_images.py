"""Sizes and limits of image files, compared with Pillow."""

from __future__ import annotations

import struct
import zlib
from base64 import b64encode
from io import BytesIO

import pytest
from PIL import Image

from pytest_evals.data.images import check_image, image_digest, image_size
from pytest_evals.errors import DocumentError


@pytest.mark.parametrize("size", [(1, 1), (40, 30), (16_383, 2)])
@pytest.mark.parametrize(
    ("form", "options"),
    [
        ("PNG", {}),
        ("GIF", {}),
        ("JPEG", {}),
        ("JPEG", {"progressive": True, "exif": b"Exif\0\0" + b"x" * 4_000}),
        ("WEBP", {}),
        ("WEBP", {"lossless": True}),
        ("WEBP", {"exif": b"Exif\0\0II*\0\x08\0\0\0\0\0"}),
    ],
)
def test_sizes_are_read_from_headers(form, options, size):
    buffer = BytesIO()
    Image.new("RGB", size).save(buffer, form, **options)
    buffer.seek(0)
    assert image_size(buffer) == size


def png(width: int, height: int) -> bytes:
    """A PNG whose header promises a size that its few bytes do not have."""
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunk = b"IHDR" + head
    crc = struct.pack(">I", zlib.crc32(chunk))
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + chunk + crc


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (png(100_000, 100_000), "100,000 x 100,000 pixels"),
        (b"\x89PNG\r\n\x1a\n", "broken image/png file"),
        (b"\xff\xd8\xff\xe0\x00\x04ab\xff", "broken image/jpeg file"),
        (b"<svg/>", "not a PNG, JPEG, GIF or WebP file"),
        (png(1, 1) + b"\0" * (20 * 2**20), "bytes; an image may have 20,971,520"),
    ],
)
def test_other_files_and_large_images_are_refused(tmp_path, raw, why):
    path = tmp_path / "shelf.png"
    path.write_bytes(raw)
    with pytest.raises(DocumentError, match=why):
        check_image(str(path))


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("data:text/html;base64,AAAA", "not a data: URL of a PNG"),
        ("data:image/png;base64,*", "not a data: URL of a PNG"),
        (
            f"data:image/png;base64,{b64encode(png(9_000, 9_000)).decode()}",
            "9,000 x 9,000 pixels",
        ),
    ],
)
def test_data_urls_are_checked_as_files(url, why):
    with pytest.raises(DocumentError, match=why):
        check_image(url)


def test_a_replaced_file_has_another_digest(tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(png(1, 1))
    first = image_digest(str(path))
    path.write_bytes(png(2, 1) + b"more")
    assert image_digest(str(path)) != first
