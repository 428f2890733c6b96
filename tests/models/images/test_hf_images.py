"""Models of transformers that read images: batches, choices, limits and texts."""

from __future__ import annotations

import math
import subprocess
import sys
from io import BytesIO
from pathlib import Path

import pytest

from pytest_evals.core.request import (
    IMAGES,
    LEADING_IMAGES,
    PLACED_IMAGES,
    Generate,
    ImageLoglikelihood,
    Loglikelihood,
    Message,
)
from pytest_evals.data.images import RowImage, image_digest
from pytest_evals.errors import ModelError, OptionError
from pytest_evals.models.registry import (
    TaskRequirements,
    check_spec,
    open_model,
    parse_spec,
    why_unfit,
)
from tests.models.images.checkpoints import FAMILIES, paligemma
from tests.models.images.random_images import noise

SLOW = [family for family in FAMILIES if family != "llava"]
FAMILY = pytest.mark.parametrize(
    "family", ["llava", *(pytest.param(x, marks=pytest.mark.slow) for x in SLOW)]
)


def chat(text: str) -> tuple[Message, ...]:
    return (Message("user", text),)


def requests() -> list:
    """Generations and choices with images of several sizes and prompts of several
    lengths, and one without an image."""
    found: list = [Loglikelihood("a text", " only")]
    shown = [noise(1, 40, 30), noise(2, 64, 28, "L"), noise(3, 30, 90)]
    for number, url in enumerate(shown):
        options = ((LEADING_IMAGES, (url,)),)
        asked = chat("what is " * number + "<image> this?")
        found.append(Generate(asked, stop=("q",), max_tokens=5, options=options))
        for choice in (" cat", " cab", " dog!"):
            found.append(ImageLoglikelihood(asked, choice, options))
    return found


def answers(model, asked) -> list:
    found = dict(model.answer(asked))
    assert not [one.error for one in found.values() if one.error]
    return [found[i] for i in range(len(asked))]


@pytest.mark.slow
@FAMILY
def test_batches_give_the_numbers_of_single_requests(opened, family):
    model, asked = opened(family), requests()
    together = answers(model, asked)
    alone = [answers(model, [one])[0] for one in asked]
    for name in ("text", "n_tokens", "n_prompt_tokens", "finish"):
        named = [getattr(one, name) for one in together]
        assert named == [getattr(one, name) for one in alone], name
    for one, other in zip(together, alone, strict=True):
        assert (one.logprob is None) == (other.logprob is None)
        if one.logprob is not None:
            assert one.logprob == pytest.approx(other.logprob, abs=1e-4)
    assert not model.notes
    # Random models may ignore an image: then the test would say nothing.
    values = [one.logprob for one in together if one.logprob is not None]
    assert len({round(value, 2) for value in values}) == len(values)


@FAMILY
def test_choices_have_the_log_probabilities_of_step_by_step_generation(
    opened, checkpoint, family
):
    import torch
    import transformers

    model, url = opened(family), noise(4, 40, 33)
    options = ((LEADING_IMAGES, (url,)),)
    asked = [
        ImageLoglikelihood(chat("<image>is it a"), x, options) for x in ("cat", "no")
    ]
    found = answers(model, asked)

    library = transformers.AutoModelForImageTextToText.from_pretrained(
        checkpoint(family)
    )
    processor = transformers.AutoProcessor.from_pretrained(checkpoint(family))
    parts = [{"type": "image"}, {"type": "text", "text": "is it a"}]
    text = processor.apply_chat_template(
        [{"role": "user", "content": parts}], add_generation_prompt=True
    )
    for one, choice in zip(found, ("cat", "no"), strict=True):
        # White space at the end of a context is scored, as in text.
        tokens = processor.tokenizer(" " + choice)["input_ids"]
        inputs = processor(
            text=[text.rstrip()], images=[[pillow(url)]], return_tensors="pt"
        )
        total = 0.0
        for token in tokens:
            step = library.generate(
                **inputs,
                max_new_tokens=1,
                do_sample=False,
                output_logits=True,
                return_dict_in_generate=True,
            ).logits[0][0]
            total += float(step.log_softmax(-1)[token])
            # Of these families, texts after an image are of type 0.
            shape = inputs["input_ids"].shape
            more = {"input_ids": token, "attention_mask": 1}
            for name in [k for k, v in inputs.items() if v.shape == shape]:
                new = torch.tensor([[more.get(name, 0)]])
                inputs[name] = torch.cat([inputs[name], new], 1)
        assert one.logprob == pytest.approx(total, abs=1e-4)
        assert one.n_tokens == len(tokens)


def pillow(url: str):
    from base64 import b64decode

    from PIL import Image

    return Image.open(BytesIO(b64decode(url.partition(",")[2])))


def test_samples_do_not_depend_on_the_batch(opened):
    model, url = opened("llava"), noise(1, 40, 30)
    options = ((LEADING_IMAGES, (url,)),)
    asked = [
        Generate(chat("<image>?"), (), 6, 1.0, options, repeat) for repeat in (0, 1, 2)
    ]
    together = [one.text for one in answers(model, asked)]
    assert together == [answers(model, [one])[0].text for one in asked]
    assert len(set(together)) == 3


def test_texts_of_a_batch_end_on_their_own(opened):
    model, options = opened("llava"), ((LEADING_IMAGES, (noise(1, 40, 30),)),)
    whole = answers(model, [Generate(chat("<image>?"), (), 9, options=options)])[0]
    stop = whole.text[2:4]
    tops = (*options, ("top_logprobs", 2))
    asked = [
        Generate(chat("<image>?"), (), 9, options=tops),
        Generate(chat("<image>?"), (stop,), 9, options=tops),
        Generate(chat("<image>?"), (), 3, options=tops),
    ]
    long, stopped, short = answers(model, asked)
    assert (long.text, long.n_tokens) == (whole.text, 9)
    assert stopped.text == whole.text.partition(stop)[0]
    assert (stopped.finish, short.finish) == ("stop", "length")
    for one, n_tokens in ((long, 9), (stopped, 4), (short, 3)):
        assert one.n_tokens == len(one.top_logprobs) == n_tokens
        assert one.top_logprobs == long.top_logprobs[:n_tokens]


def test_options_that_transformers_refuses_are_errors_of_their_documents(opened):
    options = ((LEADING_IMAGES, (noise(1, 40, 30),)),)
    refused = (*options, ("suppress_tokens", "abc"))
    asked = [Generate(chat("<image>?"), (), 3, options=o) for o in (refused, options)]
    first, second = errors(opened("llava"), *asked)
    assert first.startswith("transformers refuses suppress_tokens: ")
    assert second == ""


def test_images_of_all_origins_reach_the_model(opened, tmp_path):
    model, url = opened("llava"), noise(1, 40, 30)
    path = tmp_path / "one.png"
    pillow(url).save(path)
    digest = image_digest(str(path))
    placed = ((0, 0, digest, "", "one.png", str(path)),)
    tagged, plain = chat("<image>what?"), chat("what?")
    first, second, last = answers(
        model,
        [
            Generate(tagged, (), 5, options=((LEADING_IMAGES, (url,)),)),
            Generate(plain, (), 5, options=((PLACED_IMAGES, placed),)),
            Generate(plain, (), 5, options=((IMAGES, (url,)),)),
        ],
    )
    assert first.text == second.text
    assert first.n_prompt_tokens == second.n_prompt_tokens == last.n_prompt_tokens
    assert first.text != last.text  # lighteval's images follow the text


def errors(model, *asked) -> list[str]:
    found = dict(model.answer(asked))
    return [found[i].error for i in range(len(asked))]


def test_an_unusable_image_is_the_error_of_its_document_only(opened, tmp_path):
    broken, changed, whole = (tmp_path / f"{x}.png" for x in ("broken", "new", "whole"))
    pillow(noise(1, 40, 30)).save(whole)
    raw = whole.read_bytes()
    broken.write_bytes(raw[: len(raw) // 2])
    changed.write_bytes(raw)

    def asked(path: Path) -> Generate:
        one = (0, 0, image_digest(str(path)), "", path.name, str(path))
        return Generate(chat("a"), (), 3, options=((PLACED_IMAGES, (one,)),))

    given = [asked(path) for path in (broken, changed, whole)]
    pillow(noise(2, 40, 30)).save(changed)
    found = errors(opened("llava"), *given)
    assert found[0].startswith("'broken.png' cannot be decoded: ")
    assert "has changed since the run began" in found[1]
    assert found[2] == ""


def test_an_image_with_too_many_pixels_is_refused_unread(opened, tmp_path, monkeypatch):
    from PIL import Image, ImageFile

    path = tmp_path / "bomb.png"
    Image.new("1", (9_000, 9_000)).save(path)  # a few kilobytes
    one = (0, 0, image_digest(str(path)), "", path.name, str(path))
    request = Generate(chat("a"), (), 3, options=((PLACED_IMAGES, (one,)),))
    load = lambda image: pytest.fail("was decoded")  # noqa: E731
    monkeypatch.setattr(ImageFile.ImageFile, "load", load)
    (found,) = errors(opened("llava"), request)
    assert found == (
        "'bomb.png' has 9,000 x 9,000 pixels; an image may have 50,000,000"
    )


@pytest.mark.slow
def test_images_of_rows_are_read_without_an_encoder(opened, monkeypatch):
    from PIL import Image

    def responses(of) -> list:
        options = [((LEADING_IMAGES, (of(image),)),) for image in images]
        asked = [Generate(chat("<image>?"), (), 5, options=one) for one in options]
        choices = [ImageLoglikelihood(chat("<image>?"), " c", one) for one in options]
        return [(x.text, x.logprob) for x in answers(model, [*asked, *choices])]

    images = [pillow(noise(seed, 60, 50)) for seed in (1, 2)]
    model = opened("llava")
    encoded = responses(lambda image: str(RowImage(image)))
    refuse = lambda *_, **__: pytest.fail("was encoded")  # noqa: E731
    monkeypatch.setattr(Image.Image, "save", refuse)
    assert responses(RowImage) == encoded


def test_prompts_are_not_cut_within_images(opened):
    options = ((LEADING_IMAGES, (noise(1, 40, 30),)),)
    model = opened("llava", ",max_length=30")
    found = errors(
        model,
        Generate(chat("<image>?"), (), 10, options=options),
        ImageLoglikelihood(chat("<image>?"), "a" * 20, options),
        Generate(chat("no image"), (), 3, options=options),
    )
    assert found[0].startswith("the prompt has 36 tokens, images included, and the ")
    assert found[1].startswith("the context has 35 tokens, images included, and the ")
    assert found[2].startswith("the model's processor refuses the prompt: ")
    assert "write one <image> an image into the prompt" in found[2]


def test_two_limits_of_the_size_contradict_each_other(checkpoint):
    spec = parse_spec(f"hf:{checkpoint('llava')},image_max_side=28,image_width=9")
    with pytest.raises(OptionError, match="takes one of image_max_side and image_w"):
        check_spec(spec)


def test_a_model_of_texts_refuses_images(tmp_path, checkpoint):
    (tmp_path / "config.json").write_text("{}")
    needs = TaskRequirements("generate_until", chat=True, images=True)
    assert "reads texts" in why_unfit(parse_spec(f"hf:{tmp_path}"), needs)
    assert why_unfit(parse_spec(f"hf:{checkpoint('llava')}"), needs) == ""


@pytest.mark.slow
def test_texts_need_no_processor(checkpoint):
    code = (
        "import sys\n"
        "from pytest_evals.core.request import Generate\n"
        "from pytest_evals.models.registry import open_model, parse_spec\n"
        "model = open_model(parse_spec(sys.argv[1]))\n"
        "print([*model.answer([Generate('a', max_tokens=2)])][0][1].n_tokens)\n"
        "names = ('transformers.models.llava.processing_llava',\n"
        "         'transformers.models.clip.image_processing_clip')\n"
        "print(*(name for name in names if name in sys.modules))\n"
    )
    spec = f"hf:{checkpoint('llava')},device=cpu"
    found = subprocess.run(
        [sys.executable, "-c", code, spec], capture_output=True, text=True, check=True
    )
    assert found.stdout.split() == ["2"]


def test_log_probabilities_are_finite_and_negative(opened):
    options = ((LEADING_IMAGES, (noise(1, 40, 30),)),)
    asked = [ImageLoglikelihood("a <image> b", x, options) for x in (" c", " d", " dd")]
    values = [one.logprob for one in answers(opened("llava"), asked)]
    assert all(math.isfinite(value) and value < 0 for value in values)


@pytest.mark.slow
def test_paligemma_is_refused_because_its_prompts_see_what_follows(tmp_path):
    pytest.importorskip("PIL")
    paligemma(tmp_path / "paligemma")
    with pytest.raises(ModelError, match="not a causal language model"):
        open_model(parse_spec(f"hf:{tmp_path / 'paligemma'},device=cpu"))
