"""Images of a row: accepted forms, and their conversion."""

from base64 import b64decode
from io import BytesIO
from pathlib import Path
from random import Random

import pytest

from pytest_evals.core.key import request_keys
from pytest_evals.core.request import LEADING_IMAGES, Generate, weight_of
from pytest_evals.data.calls import FieldError
from pytest_evals.data.images import RowImage
from pytest_evals.errors import DocumentError, Place
from pytest_evals.prompts.fields import Field
from pytest_evals.prompts.images import image_reader, row_images, without_images

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


def opened(image):
    return Image.open(BytesIO(b64decode(str(image).partition(",")[2])))


def shades(images):
    return [opened(one).convert("RGB").getpixel((0, 0))[0] for one in images]


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
    assert str(both[1]).startswith("data:image/jpeg;base64,")


def test_rows_that_the_library_did_not_decode_are_sent_as_they_are(tmp_path):
    raw = encoded("WEBP")
    url = str(*row_images({"bytes": raw, "path": None}, tmp_path))
    assert url.startswith("data:image/webp;base64,")
    assert b64decode(url.partition(",")[2]) == raw
    (tmp_path / "x.gif").write_bytes(encoded("GIF"))
    url = str(*row_images({"bytes": None, "path": "x.gif"}, tmp_path))
    assert url.startswith("data:image/gif;base64,")


def test_a_file_that_is_not_an_image_is_not_sent(tmp_path):
    """An untrusted dataset may name any file."""
    (tmp_path / "key.png").write_text("-----BEGIN KEY-----")
    with pytest.raises(DocumentError, match="is not a PNG, JPEG, GIF or WebP"):
        row_images("key.png", tmp_path)
    with pytest.raises(DocumentError, match=r"image not found at 'lost\.png'"):
        row_images(["lost.png"], tmp_path)


def test_an_image_of_a_mode_that_png_lacks_is_converted():
    assert opened(RowImage(picture(7, "CMYK"))).mode == "RGB"
    assert opened(RowImage(picture(7, "L"))).mode == "L"


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


def key_of(image):
    request = Generate("?", options=((LEADING_IMAGES, (image,)),))
    (key,) = request_keys([request])
    return key


def test_images_have_the_same_key_if_their_pixels_are_the_same():
    assert key_of(RowImage(picture(1))) == key_of(RowImage(picture(1)))
    raw = encoded("PNG", 1)
    undecoded = RowImage({"bytes": raw, "path": "a.png"})
    assert key_of(undecoded) == key_of(RowImage(raw))
    blue = Image.new("P", (2, 2))
    blue.putpalette([0, 0, 255])
    clear = Image.new("P", (2, 2))
    clear.putpalette([0, 0, 255])
    clear.info["transparency"] = 0
    others = [
        picture(1),
        picture(2),
        picture(1, "L"),
        Image.new("RGB", (4, 1), (1, 1, 1)),
        Image.new("P", (2, 2)),
        blue,
        clear,
    ]
    assert len({key_of(RowImage(one)) for one in others}) == len(others)


def test_a_row_is_kept_with_the_digest_that_its_request_has():
    row = {"image": picture(1), "raw": {"bytes": encoded("PNG"), "path": ""}}
    images = reader(["image", "raw"], [*row])(row)
    request = Generate("?", options=((LEADING_IMAGES, images),))
    kept = without_images(row, [request])
    assert kept == without_images(row)
    assert [*kept.values()] == [f"<image {one.digest[:16]}>" for one in images]


def test_a_file_that_cannot_be_decoded_is_an_error_of_the_document():
    whole = BytesIO()
    Image.frombytes("RGB", (64, 64), Random(1).randbytes(64 * 64 * 3)).save(
        whole, format="PNG"
    )
    broken = Image.open(BytesIO(whole.getvalue()[:2000]))
    with pytest.raises(DocumentError, match="the image cannot be decoded: "):
        RowImage(broken)


def test_the_weight_of_a_request_is_its_text_and_the_images_that_it_holds():
    image, raw = RowImage(Image.new("RGB", (40, 30))), RowImage(encoded("PNG"))
    options = ((LEADING_IMAGES, (image, raw)),)
    weight = weight_of([Generate("four", options=options)])
    assert weight == 4 + 40 * 30 * 3 + len(encoded("PNG"))
    assert weight_of([Generate("four", options=(("top_p", 0.5),))]) == 4
