"""Record prompts and answers of lm-eval 0.4.13's ``hf-multimodal``.

    python tests/parity/record_vision.py

Run it by hand, in an environment with ``lm_eval[hf]==0.4.13`` and Pillow, without
torchvision. It makes the checkpoints of ``tests/models/images/checkpoints.py``, runs
the task of ``vision/`` with several arguments, and writes for each document the text
that the processor gets, the sizes and modes of its images, the ids of its prompt, and
the answer to ``vision/recorded.json``. Weights are filled from a formula, so that they
are the same with every version of torch.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from recording import versions, write

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))
VISION = HERE / "vision"
RUNS: dict[str, dict[str, Any]] = {
    "llava": {},
    "llava,chat": {},
    "llava,max_images=1": {"max_images": 1},
    "llava,convert": {"convert_img_format": True, "image_width": 20},
    "idefics3": {},
    "idefics3,chat": {},
    "idefics3,chat,interleave": {"interleave": False},
    "idefics3,side": {"image_max_side": 24},
    "idefics3,chat,max_images=1": {"max_images": 1},
    "gemma3,string": {"image_string": "<start_of_image>"},
    "gemma3,chat": {"image_width": 30, "image_height": 20},
}
"""Arguments of the model by the name of a run: the family, and ``chat`` for a chat
template."""


def main() -> None:
    """Record all runs."""
    os.chdir(VISION)
    runs: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, arguments in RUNS.items():
            runs[name] = _recorded(name, arguments, Path(folder))
            print(name, runs[name]["documents"][0])
    recording = {"versions": versions(), "runs": runs}
    write(HERE / "vision" / "recorded.json", recording)


def _recorded(name: str, arguments: dict[str, Any], folder: Path) -> dict[str, Any]:
    from lm_eval import simple_evaluate
    from lm_eval.models.hf_vlms import HFMultimodalLM
    from lm_eval.tasks import TaskManager

    from tests.models.images.checkpoints import FAMILIES, fill

    family, *others = name.split(",")
    path = folder / family
    if not path.exists():
        FAMILIES[family](path)
        fill(path)
    model = HFMultimodalLM(str(path), device="cpu", dtype="float32", **arguments)
    seen: list[dict[str, Any]] = []
    processor = model.processor

    def watched(**given: Any) -> Any:
        encoded = processor(**given)
        ids = encoded["input_ids"][0]
        images = given["images"]
        flat = [
            one
            for some in images
            for one in (some if isinstance(some, list) else [some])
        ]
        seen.append(
            {
                "text": given["text"][0],
                "images": [[one.mode, *one.size] for one in flat],
                "ids": ids.tolist(),
            }
        )
        return encoded

    model.processor = _Watched(processor, watched)
    found = simple_evaluate(
        model=model,
        tasks=["vision"],
        task_manager=TaskManager(include_path=str(VISION), include_defaults=False),
        apply_chat_template="chat" in others,
        log_samples=True,
    )
    answers = {
        sample["doc"]["q"]: sample["resps"][0][0]
        for sample in found["samples"]["vision"]
    }
    documents = []
    for question, answer in answers.items():
        ending = question.rpartition(">")[2]
        (one,) = [x for x in seen if ending in x["text"]]
        documents.append({"q": question, **one, "answer": answer})
    return {"arguments": arguments, "chat": "chat" in others, "documents": documents}


class _Watched:
    """A processor whose calls are recorded."""

    def __init__(self, processor: Any, call: Any) -> None:
        self._processor = processor
        self._call = call

    def __getattr__(self, name: str) -> Any:
        return getattr(self._processor, name)

    def __call__(self, **given: Any) -> Any:
        return self._call(**given)


if __name__ == "__main__":
    main()
