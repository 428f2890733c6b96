"""Tiny images for the tasks here, and messages about them as JSON."""

from __future__ import annotations

from base64 import b64decode
from io import BytesIO
from typing import Any


def images() -> dict[str, Any]:
    """Three documents; the second has no right image, and the left image of the third
    has another mode."""
    from datasets import Dataset, Features, Image, Value

    left = [_picture("RGB", 10), _picture("L", 20), _picture("RGBA", 30)]
    right = [_picture("RGB", 40), None, _picture("RGB", 50)]
    rows = {"q": ["one?", "two?", "three?"], "left": left, "right": right}
    rows["answer"] = ["a", "b", "c"]
    kinds = {"q": Value("string"), "left": Image(), "right": Image()}
    features = Features({**kinds, "answer": Value("string")})
    return {"test": Dataset.from_dict(rows, features=features)}


def custom(**arguments: Any) -> dict[str, Any]:
    """A function for ``custom_dataset``."""
    return images()


def shown(doc: Any) -> list[Any]:
    """One image twice, as a question may refer to it twice."""
    return [doc["left"], doc["left"]]


def readable(value: Any) -> Any:
    """Messages with their images as mode, size and pixels."""
    if isinstance(value, dict):
        return {key: readable(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [readable(inner) for inner in value]
    if not (isinstance(value, str) and value.startswith("data:image/png;base64,")):
        return value
    from PIL import Image

    image = Image.open(BytesIO(b64decode(value.partition(",")[2])))
    return {"mode": image.mode, "size": [*image.size], "pixels": image.tobytes().hex()}


def _picture(mode: str, shade: int) -> Any:
    from PIL import Image

    made = Image.new("RGB", (3, 2), (shade, 0, 255 - shade))
    made.putpixel((1, 1), (1, 2, 3))
    return made.convert(mode)
