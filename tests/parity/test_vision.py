"""Prompts and answers of models that read images are those of lm-eval 0.4.13.

``record_vision.py`` stored those of lm-eval's ``hf-multimodal``.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_evals.core.task import TaskOptions
from pytest_evals.dialects.lm_eval.task import load_tasks
from pytest_evals.models.hf.settings import read_settings
from pytest_evals.models.registry import open_model, parse_spec
from tests.models.images.checkpoints import FAMILIES, fill

HERE = Path(__file__).resolve().parent
RUNS = json.loads((HERE / "vision" / "recorded.json").read_text("utf-8"))["runs"]
QUICK = "llava,chat"


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    pytest.importorskip("PIL")
    folder = tmp_path_factory.mktemp("vision")

    def made(family: str) -> Path:
        path = folder / family
        if not path.exists():
            FAMILIES[family](path)
            fill(path)
        return path

    return made


@pytest.mark.parametrize(
    "name",
    [pytest.param(x, marks=() if x == QUICK else pytest.mark.slow) for x in RUNS],
)
def test_prompts_images_and_answers_are_lm_evals(checkpoint, name, monkeypatch):
    from transformers import AutoConfig

    from pytest_evals.models.images.processor import ImageProcessor
    from pytest_evals.models.images.prompts import ImageCache

    run, family = RUNS[name], name.split(",")[0]
    given = "".join(f",{key}={value}" for key, value in run["arguments"].items())
    spec = parse_spec(f"hf:{checkpoint(family)},device=cpu,dtype=float32{given}")
    monkeypatch.chdir(HERE / "vision")
    options = TaskOptions(chat=run["chat"])
    (task,) = load_tasks(HERE / "vision" / "vision.yaml", options)
    requests = [task.ask(index).requests[0] for index in task.rows.indices()]

    settings = read_settings(spec)
    processor = ImageProcessor(AutoConfig.from_pretrained(settings.target), settings)
    prompts = [*map(processor.prompts().of, requests)]
    images = [ImageCache(settings).images(prompt.images) for prompt in prompts]
    assert [prompt.text for prompt in prompts] == [x["text"] for x in run["documents"]]
    assert [[[one.mode, *one.size] for one in some] for some in images] == [
        x["images"] for x in run["documents"]
    ]
    for prompt, some, theirs in zip(prompts, images, run["documents"], strict=True):
        (ids,) = processor.encode([prompt], [some]).tensors["input_ids"].tolist()
        assert ids == theirs["ids"]

    model = open_model(spec)
    try:
        found = dict(model.answer(requests))
    finally:
        model.close()
    assert [found[i].text for i in range(len(requests))] == [
        x["answer"] for x in run["documents"]
    ]
