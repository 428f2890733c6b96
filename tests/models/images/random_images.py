"""Images of random pixels."""

from __future__ import annotations

from random import Random

from pytest_evals.data.images import RowImage


def noise(seed: int, width: int, height: int, mode: str = "RGB") -> str:
    """An image of random pixels, as a URL."""
    from PIL import Image

    n = width * height * len(mode)
    pixels = Random(seed).randbytes(n)
    return str(RowImage(Image.frombytes(mode, (width, height), pixels)))
