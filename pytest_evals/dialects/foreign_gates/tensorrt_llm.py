"""Suites from the accuracy references of TensorRT-LLM: its hypothesis test."""

from __future__ import annotations

import re
import shlex
from statistics import NormalDist
from typing import NamedTuple

from pytest_evals.dialects.foreign_gates.nearest import GPQA, GSM8K
from pytest_evals.dialects.foreign_gates.suite import (
    Converted,
    ConvertedGate,
    UnconvertibleError,
    Values,
    around,
    number,
)


class TrtTask(NamedTuple):
    """A task of TensorRT-LLM's ``accuracy_core.py``."""

    task: str  # of lm-eval; empty if none has its scores
    metric: str
    n: int  # NUM_SAMPLES
    reason: str  # why scores differ from lm-eval's, or cannot be compared with any
    alpha: float = 0.05
    sigma: float = 50.0
    higher_is_better: bool = True


_OWN = "prompts of tensorrt_llm.evaluate: the suite has lm-eval's"
TRT_TASKS = {
    "gsm8k": TrtTask(
        *GSM8K, 1319, "their number is the mean of strict-match and flexible-extract"
    ),
    "mmlu": TrtTask("mmlu", "acc", 4096, f"{_OWN}, and all documents"),
    "gpqa_diamond": TrtTask(*GPQA, 198, _OWN),
    "mmmu": TrtTask("", "", 900, "images"),
    "longbench_v1": TrtTask("longbench", "score", 4750, _OWN),
    "longbench_v2": TrtTask("", "", 215, "their selection of contexts"),
    "json_mode_eval": TrtTask("", "", 100, "no task of lm-eval"),
    "cnn_dailymail": TrtTask(
        "", "", 512, "ROUGE of their summaries", alpha=0.002, sigma=11.06
    ),
    "humaneval": TrtTask(
        "", "", 164, "ROUGE of code, not tests", alpha=0.002, sigma=15.08
    ),
    "zero_scrolls": TrtTask(
        "", "", 80, "ROUGE of their summaries", alpha=0.002, sigma=6.97
    ),
    "slimpajama-6b": TrtTask(
        "", "", 86, "their perplexity", 0.01, 4.48, higher_is_better=False
    ),
    "passkey_retrieval": TrtTask("", "", 20, "no task of lm-eval", 0.5, 0.0),
    "videomme": TrtTask("", "", 300, "video"),
    "voxpopuli": TrtTask("", "", 32, "audio", higher_is_better=False),
    "mixed_modality": TrtTask("", "", 1, "images and audio"),
    "acceptance_length": TrtTask("", "", 1, "acceptance lengths"),
}
"""Beginning of a reference file's name → its task and defaults, November 2026."""
_SHORT = {"quant_algo": "", "kv_cache_quant_algo": "kv-", "spec_dec_algo": "spec-"}
"""Keys that select an entry → what a name has before their value."""
_SELECTORS = ("dtype", *_SHORT, "extra_acc_spec")
_TRT_OTHERS = ("accuracy", "alpha", "beta", "sigma", "num_samples", "higher_is_better")


def trt_threshold(
    reference: float,
    n: int,
    sigma: float,
    alpha: float,
    *,
    higher_is_better: bool = True,
) -> float:
    """The threshold of a one-sided test of two samples: ``reference + z(alpha) *
    sqrt(2 * sigma**2 / n)``, in the unit of ``reference``."""
    scale: float = (2 * sigma**2 / n) ** 0.5
    z = NormalDist().inv_cdf(alpha)
    return reference + z * scale if higher_is_better else reference - z * scale


def convert_trt(values: Values, place: str, stem: str) -> Converted:
    """``references`` of TensorRT-LLM: an entry for each model and quantization."""
    lower = stem.lower()
    names = [one for one in TRT_TASKS if lower.startswith(one)]
    if not names:
        known = ", ".join(one for one, task in TRT_TASKS.items() if task.task)
        raise UnconvertibleError(f"its name is not that of a task: {known}")
    task = TRT_TASKS[max(names, key=len)]
    if not task.task:
        raise UnconvertibleError(
            f"its scores are not those of a task here: {task.reason}"
        )
    found = Converted()
    found.add_task(task.task)
    for model, entries in values.items():
        selected: set[tuple[str, ...]] = set()
        for entry in entries or ():
            key = tuple(str(entry.get(one)) for one in _SELECTORS)
            if key in selected:  # the first entry with these keys is taken
                shown = ", ".join(f"{k}: {v}" for k, v in entry.items())
                found.left_out.append(f"a second entry of {model}: {shown}")
            else:
                _add_trt(found, task, str(model), entry)
            selected.add(key)
    if not found.gates:
        raise UnconvertibleError("it has no accuracy")
    found.left_out.insert(0, f"{task.reason}; the gates are advisory")
    found.commands.append(
        f"pytest --model=NAME=serve:COMMAND {shlex.quote(place)}, with a NAME of "
        "gates.yaml"
    )
    return found


def _add_trt(found: Converted, task: TrtTask, model: str, entry: Values) -> None:
    given = entry.get("accuracy")
    specs = {k: v for k, v in entry.items() if k not in _TRT_OTHERS and v is not None}
    name = "_".join(
        [
            model.rpartition("/")[2],
            *(f"{_SHORT.get(k, f'{k}-')}{v}" for k, v in specs.items()),
        ]
    )
    name = re.sub(r"[^\w.-]", "-", name)
    if name in {one.entry["id"] for one in found.gates}:  # of another organization
        name = re.sub(r"[^\w.-]", "-", f"{model.partition('/')[0]}_{name}")
    if given is None:
        found.left_out.append(f"{name}: no accuracy")
        return
    reference = number(f"accuracy of {name}", given)
    higher = bool(entry.get("higher_is_better", task.higher_is_better))
    n = int(number("num_samples", entry.get("num_samples", task.n)))
    edge = trt_threshold(
        reference,
        n,
        number("sigma", entry.get("sigma", task.sigma)),
        number("alpha", entry.get("alpha", task.alpha)),
        higher_is_better=higher,
    )
    share = reference / 100
    keys = around(share, low=edge / 100) if higher else {"max": edge / 100}
    gate = {"task": task.task, "metric": task.metric, **keys}
    gate |= {"when": {"model": name}, "advisory": True, "id": name}
    what = f"{reference:g} of {model}: TensorRT-LLM, test of two samples of {n:,}"
    found.gates.append(ConvertedGate(gate, what))
