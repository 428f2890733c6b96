"""Images of random pixels."""

from __future__ import annotations

from random import Random

from pytest_evals.prompts.images import data_url


def noise(seed: int, width: int, height: int, mode: str = "RGB") -> str:
    """An image of random pixels, as a URL."""
    from PIL import Image

    n = width * height * len(mode)
    pixels = Random(seed).randbytes(n)
    return data_url(Image.frombytes(mode, (width, height), pixels))
