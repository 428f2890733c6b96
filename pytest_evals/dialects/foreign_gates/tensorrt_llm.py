"""Suites from the accuracy references of TensorRT-LLM: its hypothesis test."""

from __future__ import annotations

import re
import shlex
from decimal import Decimal
from statistics import NormalDist
from typing import NamedTuple

from pytest_evals.dialects.foreign_gates.suite import (
    GPQA,
    GSM8K,
    Converted,
    ConvertedGate,
    UnconvertibleError,
    Values,
    around,
    number,
)


class TrtTask(NamedTuple):
    """A task of TensorRT-LLM's ``accuracy_core.py`` with scores of an lm-eval task.
    ``n``: ``NUM_SAMPLES``. ``difference``: why scores differ from lm-eval's."""

    task: str
    metric: str
    n: int
    difference: str


_OWN = "prompts of tensorrt_llm.evaluate: the suite has lm-eval's"
TRT_TASKS = {
    "gsm8k": TrtTask(
        *GSM8K, 1319, "their number is the mean of strict-match and flexible-extract"
    ),
    "mmlu": TrtTask("mmlu", "acc", 4096, f"{_OWN}, and all documents"),
    "gpqa_diamond": TrtTask(*GPQA, 198, _OWN),
    "longbench_v1": TrtTask("longbench", "score", 4750, _OWN),
}
"""Name of a reference file → its task, November 2026."""
_ALPHA, _SIGMA = 0.05, 50.0  # of these tasks, without keys in the file
_NO_TASK = {
    "mmmu": "images",
    "longbench_v2": "their selection of contexts",
    "json_mode_eval": "no task of lm-eval",
    "cnn_dailymail": "ROUGE of their summaries",
    "humaneval": "ROUGE of code, not tests",
    "zero_scrolls": "ROUGE of their summaries",
    "slimpajama-6b": "their perplexity",
    "passkey_retrieval": "no task of lm-eval",
    "videomme": "video",
    "voxpopuli": "audio",
    "mixed_modality": "images and audio",
}
"""Beginning of a reference file's name → why no task of lm-eval has its scores."""
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


def convert_trt(values: Values, folder: str, stem: str) -> Converted:
    """``references`` of TensorRT-LLM: an entry for each model and quantization."""
    lower = stem.lower()
    others = (one for one in _NO_TASK if lower.startswith(one))
    name = lower if lower in TRT_TASKS else next(others, "")
    if not name:
        known = ", ".join(TRT_TASKS)
        raise UnconvertibleError(f"its name is not that of a task: {known}")
    if name in _NO_TASK:
        message = f"its scores are not those of a task here: {_NO_TASK[name]}"
        raise UnconvertibleError(message)
    task = TRT_TASKS[name]
    suite = Converted()
    suite.add_task(task.task)
    models = {key: one for key, one in values.items() if isinstance(one, list)}
    for model, entries in models.items():
        selected: set[tuple[str, ...]] = set()
        for entry in entries:
            key = tuple(str(entry.get(one)) for one in _SELECTORS)
            if key in selected:  # the first entry with these keys is taken
                shown = ", ".join(f"{k}: {v}" for k, v in entry.items())
                suite.left_out.append(f"a second entry of {model}: {shown}")
            else:
                _add_trt(suite, task, str(model), entry)
            selected.add(key)
    if not suite.gates:
        raise UnconvertibleError("it has no accuracy")
    suite.left_out.insert(0, f"{task.difference}; the gates are advisory")
    suite.commands.append(
        f"pytest --model=NAME=serve:COMMAND {shlex.quote(folder)}, with a NAME of "
        "gates.yaml"
    )
    return suite


def _add_trt(suite: Converted, task: TrtTask, model: str, entry: Values) -> None:
    given = entry.get("accuracy")
    specs = {k: v for k, v in entry.items() if k not in _TRT_OTHERS and v is not None}
    name = "_".join(
        [
            model.rpartition("/")[2],
            *(f"{_SHORT.get(k, f'{k}-')}{v}" for k, v in specs.items()),
        ]
    )
    name = re.sub(r"[^\w.-]", "-", name)
    if name in {one.entry["id"] for one in suite.gates}:  # of another organization
        name = re.sub(r"[^\w.-]", "-", f"{model.partition('/')[0]}_{name}")
    if given is None:
        suite.left_out.append(f"{name}: no accuracy")
        return
    reference = number(f"accuracy of {name}", given)
    higher = bool(entry.get("higher_is_better", True))
    n = int(number("num_samples", entry.get("num_samples", task.n)))
    edge = trt_threshold(
        reference,
        n,
        number("sigma", entry.get("sigma", _SIGMA)),
        number("alpha", entry.get("alpha", _ALPHA)),
        higher_is_better=higher,
    )
    share = float(Decimal(repr(reference)) / 100)  # 0.7285, not 0.7284999999999999
    keys = around(share, low=edge / 100) if higher else {"max": edge / 100}
    gate = {"task": task.task, "metric": task.metric, **keys}
    gate |= {"when": {"model": name}, "advisory": True, "id": name}
    message = f"{reference:g} of {model}: TensorRT-LLM, test of two samples of {n:,}"
    suite.gates.append(ConvertedGate(gate, message))
