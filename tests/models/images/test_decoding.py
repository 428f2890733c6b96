"""Images reach a model as the ``datasets`` library decodes them for lm-eval."""

from io import BytesIO

import numpy as np
import pytest

datasets = pytest.importorskip("datasets")
Image = pytest.importorskip("PIL.Image")

from pytest_evals.models.images.prompts import ImageCache, ImageFile  # noqa: E402
from pytest_evals.models.tokens.settings import ImageSettings  # noqa: E402

ORIENTATION = 274


def encoded(mode: str, form: str, orientation: int) -> bytes:
    """A file of 9 by 6 random pixels."""
    random = np.random.default_rng(7)
    if mode == "I;16":
        image = Image.fromarray(random.integers(0, 65_536, (6, 9), dtype=np.uint16))
    else:
        pixels = random.integers(0, 256, (6, 9, len(mode)), dtype=np.uint8)
        image = Image.fromarray(pixels.squeeze(), mode)
    exif = Image.Exif()
    if orientation:
        exif[ORIENTATION] = orientation
    buffer = BytesIO()
    image.save(buffer, form, exif=exif)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("mode", "form", "orientation"),
    [
        ("RGB", "JPEG", 6),
        ("RGB", "PNG", 8),
        ("RGB", "WEBP", 3),
        ("CMYK", "JPEG", 0),
        ("CMYK", "JPEG", 5),
        ("I;16", "PNG", 0),
        ("LA", "PNG", 0),
        ("L", "PNG", 7),
    ],
)
@pytest.mark.parametrize("converts", [False, True])
def test_a_file_is_upright_and_keeps_its_mode(
    mode, form, orientation, converts, tmp_path
):
    content = encoded(mode, form, orientation)
    path = tmp_path / f"a.{form.lower()}"
    path.write_bytes(content)
    expected = datasets.Image().decode_example({"bytes": content, "path": None})
    if converts:  # as lm-eval's hf-multimodal with convert_img_format
        expected = expected.convert("RGB")
    images = ImageCache(ImageSettings(target="tiny", convert_img_format=converts))
    (found,) = images.images([ImageFile.of(str(path), 1)])
    assert (found.mode, found.size) == (expected.mode, expected.size)
    assert found.tobytes() == expected.tobytes()
