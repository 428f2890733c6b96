"""Requests with images to ``vllm:`` models. A library with vLLM's documented interface
replaces it, and runs the checkpoint with transformers."""

from __future__ import annotations

import importlib
import json
import shutil
import sys
from pathlib import Path

import pytest

from pytest_evals.core.request import (
    IMAGES,
    LEADING_IMAGES,
    PLACED_IMAGES,
    Generate,
    ImageLoglikelihood,
    Message,
)
from pytest_evals.data.images import RowImage, image_digest
from pytest_evals.errors import OptionError
from pytest_evals.models.registry import (
    TaskRequirements,
    check_spec,
    open_model,
    parse_spec,
    why_unfit,
)
from pytest_evals.models.vllm.settings import engine_arguments, read_settings
from tests.models.images.conftest import checkpoint  # noqa: F401
from tests.models.images.random_images import noise
from tests.models.images.test_hf_images import pillow

LIBRARY = Path(__file__).parent / "library"


@pytest.fixture
def opened(checkpoint, monkeypatch):  # noqa: F811
    """Opens the model of a family with arguments."""
    from pytest_evals.models.vllm import engine

    names = [name for name in sys.modules if name.partition(".")[0] == "vllm"]
    for name in names:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(LIBRARY)
    importlib.invalidate_caches()
    engine_arguments.cache_clear()
    engine.rejections.cache_clear()
    models = []

    def made(family="llava", arguments=""):
        while models:  # an engine a session
            models.pop().close()
        path = family if isinstance(family, Path) else checkpoint(family)
        models.append(open_model(parse_spec(f"vllm:{path}{arguments}")))
        return models[-1]

    yield made
    while models:
        models.pop().close()
    for name in [name for name in sys.modules if name.partition(".")[0] == "vllm"]:
        del sys.modules[name]
    engine_arguments.cache_clear()
    engine.rejections.cache_clear()


def answers(model, asked):
    found = dict(model.answer(asked))
    return [found[i] for i in range(len(asked))]


def library_of(model):
    """The engine of the library."""
    return model._engine._llm.llm_engine


def requests(path):
    """lm-eval's, lighteval's and a case's images."""
    image = pillow(noise(2, 64, 28))
    image.save(path)
    placed = (0, 2, image_digest(str(path)), "", path.name, str(path))
    chat = (Message("user", "a <image> b"),)
    case = (Message("user", "a  b"),)
    return [
        Generate("<image> b", (), 5, options=((LEADING_IMAGES, (RowImage(image),)),)),
        Generate(chat, ("q",), 6, options=((LEADING_IMAGES, (noise(1, 40, 30),)),)),
        Generate(case, (), 4, options=((IMAGES, (noise(1, 40, 30), noise(3, 9, 9))),)),
        Generate(case, (), 5, options=((PLACED_IMAGES, (placed,)),)),
    ]


@pytest.mark.parametrize(
    "family", ["llava", pytest.param("gemma3", marks=pytest.mark.slow)]
)
def test_answers_are_those_of_the_hf_model(opened, checkpoint, tmp_path, family):  # noqa: F811
    asked = requests(tmp_path / "a.png")
    ours = answers(opened(family), asked)
    model = open_model(parse_spec(f"hf:{checkpoint(family)},device=cpu"))
    theirs = answers(model, asked)
    model.close()
    assert [one.error for one in ours] == [""] * len(asked)
    names = ("text", "n_tokens", "n_prompt_tokens", "finish")
    for one, other in zip(ours, theirs, strict=True):
        for name in names:
            assert getattr(one, name) == getattr(other, name), name


@pytest.mark.slow
def test_a_first_token_in_the_template_of_a_case_is_not_doubled(
    opened,
    checkpoint,  # noqa: F811
    tmp_path,
):
    path = tmp_path / "llava"
    shutil.copytree(checkpoint("llava"), path)
    tokens = json.loads((path / "tokenizer.json").read_text())
    bos = json.loads((path / "tokenizer_config.json").read_text())["bos_token"]
    (number,) = [one["id"] for one in tokens["added_tokens"] if one["content"] == bos]
    tokens["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [
            {"SpecialToken": {"id": bos, "type_id": 0}},
            {"Sequence": {"id": "A", "type_id": 0}},
        ],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}],
        "special_tokens": {bos: {"id": bos, "ids": [number], "tokens": [bos]}},
    }
    (path / "tokenizer.json").write_text(json.dumps(tokens))
    template = path / "chat_template.jinja"
    template.write_text("{{ bos_token }}" + template.read_text())
    asked = requests(tmp_path / "a.png")
    ours = answers(opened(path), asked)
    model = open_model(parse_spec(f"hf:{path},device=cpu"))
    theirs = answers(model, asked)
    model.close()
    assert [one.n_prompt_tokens for one in ours] == [
        one.n_prompt_tokens for one in theirs
    ]
    plain = answers(opened("llava"), asked)
    more = zip(ours, plain, strict=True)
    assert [one.n_prompt_tokens - other.n_prompt_tokens for one, other in more] == [
        1,  # the tokenizer's
        2,  # and the template's, as in lm-eval
        2,  # as in lighteval
        1,
    ]


def test_images_are_given_as_pixels_with_the_limits_of_the_model(opened):
    model = opened("llava", ",image_max_side=20")
    image = pillow(noise(1, 40, 30))
    asked = Generate("<image>", (), 3, options=((LEADING_IMAGES, (RowImage(image),)),))
    answers(model, [asked])
    (prompt,) = library_of(model).prompts
    (shown,) = prompt["multi_modal_data"]["image"]
    assert prompt["prompt"].count("<image>") == 1
    assert shown.size == (20, 15)


def test_what_the_engine_cannot_do_is_an_error_of_its_document(opened, tmp_path):
    options = ((LEADING_IMAGES, (noise(1, 40, 30),)),)
    lost = (0, 0, "0" * 64, "", "lost.png", str(tmp_path / "lost.png"))
    asked = [
        ImageLoglikelihood("<image>", " a", options),
        Generate("<image>" + "x" * 200, (), 99, options=options),
        Generate("no place", (), 5, options=options),
        Generate((Message("user", "a"),), (), 5, options=((PLACED_IMAGES, (lost,)),)),
        Generate("<image>", (), 5, options=options),
    ]
    choice, long, placeless, missing, good = (
        one.error for one in answers(opened(), asked)
    )
    assert choice.startswith("vllm: models give no log-probabilities of a text after")
    assert "tokens, images included, and the answer up to 99; the model's" in long
    assert placeless.startswith("vLLM rejects the request: ")
    assert missing.startswith("cannot read ") and "lost.png" in missing
    assert good == ""


def test_the_engine_holds_few_images_at_once(opened, monkeypatch):
    monkeypatch.setattr("pytest_evals.models.vllm.generation.WAITING_IMAGES", 3)
    model = opened()
    asked = [
        Generate("<image>", (), 1, options=((LEADING_IMAGES, (noise(i, 9, 9),)),))
        for i in range(8)
    ]
    assert len(answers(model, asked)) == 8
    assert library_of(model).most == 3


def test_tasks_that_do_not_fit_are_refused_before_loading(checkpoint, tmp_path):  # noqa: F811
    (tmp_path / "config.json").write_text("{}")
    generates = TaskRequirements("generate_until", chat=True, images=True)
    scores = TaskRequirements("multiple_choice", chat=True, images=True)
    reads = f"vllm:{checkpoint('llava')}"
    assert why_unfit(parse_spec(reads), generates) == ""
    assert "no log-probabilities of a text" in why_unfit(parse_spec(reads), scores)
    assert "reads texts" in why_unfit(parse_spec(f"vllm:{tmp_path}"), generates)
    with_start = parse_spec(f"{reads},add_bos_token=true")
    assert "leave add_bos_token out" in why_unfit(with_start, generates)


def test_the_number_of_images_is_the_limit_of_the_engine():
    spec = parse_spec("vllm:org/name,max_images=2")
    assert read_settings(spec).engine == {"limit_mm_per_prompt": '{"image": 2}'}
    own = parse_spec('vllm:org/name,max_images=2,limit_mm_per_prompt={"image":3}')
    assert read_settings(own).engine == {"limit_mm_per_prompt": '{"image":3}'}
    with pytest.raises(OptionError, match="the vllm model takes one of image_max_side"):
        check_spec(parse_spec("vllm:org/name,image_max_side=9,image_width=9"))
