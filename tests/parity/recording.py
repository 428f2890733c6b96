"""Shared code of the scripts that record lm-eval: a quiet environment, one way to run
it, and the format of a recording."""

from __future__ import annotations

import json
import math
import os
from importlib.metadata import version
from pathlib import Path
from typing import Any

__all__ = ["evaluated", "versions", "write"]

os.environ |= {
    "HF_DATASETS_OFFLINE": "1",
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
}


def versions() -> dict[str, str]:
    """The versions that the numbers depend on."""
    return {name: version(name) for name in ("lm_eval", "transformers", "torch")}


def evaluated(name: str, folder: Path, model: Path, **options: Any) -> dict[str, Any]:
    """lm-eval's results of one task or group.

    Args:
        name: The task or group.
        folder: The folder of its files; lm-eval finds them by name only.
        model: The model's folder.
        options: Further arguments of lm-eval's ``simple_evaluate``.
    """
    from lm_eval import simple_evaluate
    from lm_eval.tasks import TaskManager

    found: dict[str, Any] = simple_evaluate(
        model="hf",
        model_args={"pretrained": str(model), "dtype": "float32"},
        tasks=[name],
        task_manager=TaskManager(include_path=str(folder), include_defaults=False),
        batch_size=16,
        device="cpu",
        **options,
    )
    return found


def write(path: Path, recording: dict[str, Any]) -> None:
    """Write a recording as JSON."""
    path.parent.mkdir(exist_ok=True)
    text = json.dumps(_plain(recording), indent=1, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")


def _plain(value: Any) -> Any:
    """Return the value as JSON represents it: numpy's numbers as numbers, no NaN."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
