"""Whole runs of models that read images: cases with choices, storage and reports."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.models.images.random_images import noise
from tests.models.images.test_hf_images import pillow

EVAL = """\
prompt:
  - role: user
    content:
      - {type: image, path: "{{picture}}"}
      - {type: text, text: "Which colour?"}
choices: [red, "blue and green"]
rows:
  - {id: a, picture: a.png, target: red}
  - {id: b, picture: b.png, target: red}
"""


@pytest.mark.slow
def test_choices_after_images_are_stored_by_the_content_of_the_image(
    pytester, checkpoint
):
    folder = pytester.mkdir("evals")
    for number, name in enumerate("ab"):
        pillow(noise(number, 40, 30)).save(folder / f"{name}.png")
    (folder / "seen.yaml").write_text(EVAL)
    arguments = ("evals", f"--model=hf:{checkpoint('llava')},device=cpu")

    def values() -> list[list[str]]:
        pytester.runpytest(*arguments).assert_outcomes(passed=2)
        path = max(Path(".evals/runs").glob("*/samples_seen.jsonl"))
        samples = [*map(json.loads, path.read_text().splitlines())]
        assert "base64" not in path.read_text()
        shown = samples[0]["arguments"]["gen_args_0"]["arg_2"]["placed_images"]
        assert shown[0]["path"] == "evals/a.png"
        return [[str(one[0]) for one in sample["resps"]] for sample in samples]

    first = values()
    assert first[0] != first[1]
    pillow(noise(7, 40, 30)).save(folder / "b.png")
    second = values()
    assert second[0] == first[0] and second[1] != first[1]
    pytester.runpytest(*arguments, "--evals-cache=only").assert_outcomes(passed=2)
