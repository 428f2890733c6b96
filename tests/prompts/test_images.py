"""Images of a row: accepted forms, and their conversion."""

from base64 import b64decode
from io import BytesIO
from pathlib import Path

import pytest

from pytest_evals.data.calls import FieldError
from pytest_evals.errors import DocumentError, Place
from pytest_evals.prompts.fields import Field
from pytest_evals.prompts.images import (
    data_url,
    image_reader,
    image_urls,
    without_images,
)

Image = pytest.importorskip("PIL.Image")
HERE = Place(Path("toy.yaml"), 3)


def picture(shade=9, mode="RGB"):
    return Image.new("RGB", (2, 2), (shade, shade, shade)).convert(mode)


def encoded(form, shade=9):
    buffer = BytesIO()
    picture(shade).save(buffer, format=form)
    return buffer.getvalue()


def reader(spec, columns=("image", "more", "path"), base=Path()):
    return image_reader(Field(key="doc_to_image", spec=spec, place=HERE), columns, base)


def opened(url):
    return Image.open(BytesIO(b64decode(url.partition(",")[2])))


def shades(urls):
    return [opened(url).convert("RGB").getpixel((0, 0))[0] for url in urls]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("image", [1]),
        (["image"], [1]),
        (["image", "more"], [1, 2, 3]),
        ("more", [2, 3]),
        (lambda row: [row["image"]] * 2, [1, 1]),
        (lambda row: None, []),
        (["image", lambda row: row["more"][1]], [1, 3]),
        (["none", "image"], [1]),
    ],
)
def test_a_column_a_function_or_a_list_of_them_gives_images_in_order(spec, expected):
    row = {"image": picture(1), "more": [picture(2), picture(3)], "none": None}
    assert shades(reader(spec, [*row])(row)) == expected


def test_a_template_gives_paths_which_start_at_the_base(tmp_path):
    (tmp_path / "a.png").write_bytes(encoded("PNG", 4))
    (tmp_path / "b.jpg").write_bytes(encoded("JPEG", 5))
    row = {"path": "a.png"}
    assert shades(reader("path", base=tmp_path)(row)) == [4]
    assert shades(reader("{{path}}", base=tmp_path)(row)) == [4]
    both = reader("['{{path}}', 'b.jpg']", base=tmp_path)(row)
    assert shades(both) == [4, 5]
    assert both[1].startswith("data:image/jpeg;base64,")


def test_rows_that_the_library_did_not_decode_are_sent_as_they_are(tmp_path):
    raw = encoded("WEBP")
    (url,) = image_urls({"bytes": raw, "path": None}, tmp_path)
    assert url.startswith("data:image/webp;base64,")
    assert b64decode(url.partition(",")[2]) == raw
    (tmp_path / "x.gif").write_bytes(encoded("GIF"))
    (url,) = image_urls({"bytes": None, "path": "x.gif"}, tmp_path)
    assert url.startswith("data:image/gif;base64,")


def test_a_file_that_is_not_an_image_is_not_sent(tmp_path):
    """An untrusted dataset may name any file."""
    (tmp_path / "key.png").write_text("-----BEGIN KEY-----")
    with pytest.raises(DocumentError, match="is not a PNG, JPEG, GIF or WebP"):
        image_urls("key.png", tmp_path)
    with pytest.raises(DocumentError, match=r"image not found at 'lost\.png'"):
        image_urls(["lost.png"], tmp_path)


def test_a_picture_of_a_kind_that_png_lacks_is_converted():
    assert opened(data_url(picture(7, "CMYK"))).mode == "RGB"
    assert opened(data_url(picture(7, "L"))).mode == "L"


def test_a_misspelt_column_is_reported_with_its_place():
    with pytest.raises(FieldError) as error:
        reader("imge")({"image": picture()})
    assert str(error.value) == (
        "toy.yaml:3: doc_to_image: unknown column 'imge'; did you mean 'image'?\n"
        "  fix: the columns are image"
    )


def test_an_invalid_image_is_reported_with_its_place():
    with pytest.raises(FieldError) as error:
        reader("image")({"image": 5})
    what = "doc_to_image: an image must be a PIL image or bytes, not 5"
    assert str(error.value) == f"toy.yaml:3: {what}"


def test_rows_are_kept_with_words_for_their_images():
    one = {"image": picture(1), "q": "?", "raw": {"bytes": encoded("PNG"), "path": ""}}
    kept = without_images(one)
    assert kept == without_images({**one, "image": picture(1)})
    assert kept["image"].startswith("<image ")
    assert kept["raw"].startswith("<image ")
    assert kept["q"] == "?"
