"""Images of the task here: gradients, the same in every version of Pillow."""

from __future__ import annotations

from typing import Any


def custom(**arguments: Any) -> dict[str, Any]:
    """Three documents, the last one with two images."""
    from datasets import Dataset, Features, Image, Value

    rows = {
        "q": [
            "<image>first?",
            "Is <image> the second one?",
            "<image>or <image>, which?",
        ],
        "left": [
            _image("RGB", 40, 30),
            _image("L", 30, 60),
            _image("RGB", 28, 28),
        ],
        "right": [None, None, _image("RGB", 50, 20)],
        "answer": ["a", "b", "c"],
    }
    kinds = {"q": Value("string"), "left": Image(), "right": Image()}
    features = Features({**kinds, "answer": Value("string")})
    return {"test": Dataset.from_dict(rows, features=features)}


def shown(doc: Any) -> list[Any]:
    """The images of a document."""
    return [one for one in (doc["left"], doc["right"]) if one is not None]


def _image(mode: str, width: int, height: int) -> Any:
    from PIL import Image

    made = Image.new("RGB", (width, height))
    made.putdata(
        [
            (7 * x % 256, 11 * y % 256, 3 * (x + y) * width % 256)
            for y in range(height)
            for x in range(width)
        ]
    )
    return made.convert(mode)
