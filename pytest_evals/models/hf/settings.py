"""Arguments of ``hf:`` specs. Standard library only: invalid arguments are found before
torch is imported."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_evals.errors import OptionError
from pytest_evals.models.arguments import Arguments
from pytest_evals.models.folders import check_folder
from pytest_evals.models.registry import TaskRequirements
from pytest_evals.models.spec import ModelSpec
from pytest_evals.models.tokens.settings import (
    TOKENIZATIONS,
    TokenizerSettings,
    check_thinking,
    tokenizer_readers,
    why_thinking_unfit,
)

_ARGUMENTS = Arguments("hf")
_NO_IMAGES = (
    "hf: models read texts, and a task shows images\n  fix: ask an openai: model of a "
    "server that takes images, or leave the task out with -k or --evals-tasks"
)
_COUNT = _ARGUMENTS.whole(1)
DTYPES = ("auto", "bfloat16", "float16", "float32", "float64")
ATTENTION = (
    "eager",
    "flash_attention_2",
    "flash_attention_3",
    "flex_attention",
    "sdpa",
)
MAPS = ("auto", "balanced", "balanced_low_0", "sequential")
_RAY = "--evals-ray replicates a model on a Ray cluster, -n N on this machine"
REFUSED = {
    "backend": "whether a model decodes only is read from its config",
    "delta": "merge the weights first",
    "gpus": _RAY,
    "max_batch_size": "use batch_size, an upper bound, or batch_tokens",
    "parallelize": "device_map=auto spreads a model over all devices",
    "replicas": _RAY,
    "softmax_dtype": "log-probabilities are always taken in float32",
    "token": "set the environment variable HF_TOKEN",
}
"""Arguments of lm-eval that do not exist here, with the alternative."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HfSettings(TokenizerSettings):
    """Loading and inference settings of a Hugging Face model; the fields are the
    arguments.

    Args:
        dtype: Type of the weights; ``auto`` takes the checkpoint's own.
        device: Device; empty for ``cuda`` if there is one, else ``cpu``.
        max_length: Tokens of the context window; 0 for the model's own.
        batch_tokens: Most tokens of a batch, padding included; 0 for a number that
            suits the device's memory.
        batch_size: Most rows of a batch; 0 for no bound.
        attn_implementation: Which attention transformers uses; empty for its default.
        device_map: Distribution of weights over several devices; empty for
            one device.
        peft: Folder or name of an adapter; empty for none.
        load_in_8bit: Whether bitsandbytes quantises the weights to 8 bits.
        load_in_4bit: Or to 4.
        quantization: Another ``quantization_config`` of transformers.
    """

    dtype: str = "auto"
    device: str = ""
    max_length: int = 0
    batch_tokens: int = 0
    batch_size: int = 0
    attn_implementation: str = ""
    device_map: str = ""
    peft: str = ""
    load_in_8bit: bool = False
    load_in_4bit: bool = False
    quantization: Mapping[str, Any] = field(default_factory=dict)

    @property
    def quantises(self) -> bool:
        """Whether weights are quantized at load time."""
        return self.load_in_8bit or self.load_in_4bit or bool(self.quantization)


def why_unfit(spec: ModelSpec, needs: TaskRequirements) -> str:
    """Why the model cannot run a task; empty if it can.

    Raises:
        OptionError: As :func:`read_settings`.
    """
    if needs.images:
        return _NO_IMAGES
    return why_thinking_unfit(read_settings(spec), needs)


def check_hf(spec: ModelSpec) -> None:
    """Check a spec.

    Raises:
        OptionError: As :func:`read_settings`; or a local path holds no model.
    """
    settings = read_settings(spec)
    check_folder(settings.target)
    if settings.tokenizer:
        check_folder(settings.tokenizer, needed="tokenizer_config.json")
    if settings.peft:
        check_folder(settings.peft, needed="adapter_config.json")


def read_settings(spec: ModelSpec) -> HfSettings:
    """The settings of a spec.

    Raises:
        OptionError: An argument is unknown or has a bad value.
    """
    given = _ARGUMENTS.read(spec, _READERS, REFUSED)
    settings = HfSettings(target=spec.target, **given)
    _refuse_contradictions(settings)
    return settings


def _refuse_contradictions(settings: HfSettings) -> None:
    ways = [n for n in ("load_in_8bit", "load_in_4bit") if getattr(settings, n)]
    ways += ["quantization"] if settings.quantization else []
    if len(ways) > 1:
        raise OptionError(
            f"the hf model takes one of {' and '.join(ways)}: "
            "each selects a quantization"
        )
    if settings.quantization and "quant_method" not in settings.quantization:
        raise OptionError(
            "the hf model's quantization has no 'quant_method'; write it as in a "
            'config.json, such as {"quant_method":"bitsandbytes","load_in_4bit":true}'
        )
    if settings.device and settings.device_map:
        raise OptionError(
            "the hf model takes one of device and device_map: the map chooses devices"
        )
    check_thinking("hf", settings)


def _rows(name: str, value: str) -> int:
    return 0 if value == "auto" else _COUNT(name, value)


def _dtype(name: str, value: str) -> str:
    short = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
    return _ARGUMENTS.one_of(DTYPES)(
        name, short.get(value, value.removeprefix("torch."))
    )


def _device(name: str, value: str) -> str:
    if not re.fullmatch(r"(cpu|mps|cuda|xpu|npu|hpu)(:\d+)?", value):
        raise _ARGUMENTS.wrong(name, value, "; write cpu, cuda, cuda:1 or mps")
    return value


_READERS: Mapping[str, Callable[[str, str], Any]] = {
    **tokenizer_readers(_ARGUMENTS),
    "dtype": _dtype,
    "device": _device,
    "max_length": _COUNT,
    "tokenization": _ARGUMENTS.one_of(TOKENIZATIONS),
    "batch_tokens": _COUNT,
    "batch_size": _rows,
    "attn_implementation": _ARGUMENTS.one_of(ATTENTION),
    "device_map": _ARGUMENTS.one_of(MAPS),
    "peft": _ARGUMENTS.text,
    "load_in_8bit": _ARGUMENTS.flag,
    "load_in_4bit": _ARGUMENTS.flag,
    "quantization": _ARGUMENTS.mapping,
}
