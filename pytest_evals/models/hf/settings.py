"""Arguments of ``hf:`` specs. Standard library only: invalid arguments are found before
torch is imported."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from pytest_evals.errors import OptionError
from pytest_evals.models.checkpoint import HashFile, provenance
from pytest_evals.models.engine.code_hash import (
    engine_fingerprint,
    library_version,
    values_of,
)
from pytest_evals.models.folders import check_folder
from pytest_evals.models.registry import TaskRequirements
from pytest_evals.models.spec import Arguments, ModelSpec, argument, one_of, whole
from pytest_evals.models.tokens.settings import (
    TOKENIZATIONS,
    ImageSettings,
    TokenizerSettings,
)

_COUNT = whole(1)
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


def _rows(kind: Arguments, name: str, value: str) -> int:
    return 0 if value == "auto" else _COUNT(kind, name, value)


def _dtype(kind: Arguments, name: str, value: str) -> Any:
    short = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
    return one_of(DTYPES)(kind, name, short.get(value, value.removeprefix("torch.")))


def _device(kind: Arguments, name: str, value: str) -> str:
    if not re.fullmatch(r"(cpu|mps|cuda|xpu|npu|hpu)(:\d+)?", value):
        raise kind.wrong(name, value, "; write cpu, cuda, cuda:1 or mps")
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class HfSettings(ImageSettings):
    """Loading and inference settings; the fields are the arguments."""

    tokenization: str = argument(one_of(TOKENIZATIONS), "lm_eval")
    dtype: str = argument(_dtype, "auto")
    """Type of the weights; ``auto`` takes the checkpoint's own."""
    device: str = argument(_device, "")
    """Device; empty for ``cuda`` if there is one, else ``cpu``."""
    max_length: int = argument(_COUNT, 0)
    """Tokens of the context window; 0 for the model's own."""
    batch_tokens: int = argument(_COUNT, 0)
    """Most tokens of a batch, padding included; 0 for a number that suits the device's
    memory."""
    batch_size: int = argument(_rows, 0)  # Most rows of a batch; 0 for no bound
    attn_implementation: str = argument(one_of(ATTENTION), "")
    """Which attention transformers uses; empty for its default."""
    device_map: str = argument(one_of(MAPS), "")
    """Distribution of weights over several devices; empty for one device."""
    peft: str = argument(Arguments.text, "")  # Folder or name of an adapter
    load_in_8bit: bool = argument(Arguments.flag, False)
    """Whether bitsandbytes quantises the weights to 8 bits."""
    load_in_4bit: bool = argument(Arguments.flag, False)  # Or to 4
    quantization: Mapping[str, Any] = argument(Arguments.mapping, {})
    """Another ``quantization_config`` of transformers."""

    @property
    def quantises(self) -> bool:
        """Whether weights are quantized at load time."""
        return self.load_in_8bit or self.load_in_4bit or bool(self.quantization)


def why_unfit(spec: ModelSpec, needs: TaskRequirements) -> str:
    """Why the model cannot run a task; empty if it can."""
    return read_settings(spec).why_unfit("hf", needs)


def check_hf(spec: ModelSpec) -> None:
    """As :func:`read_settings`; a local path without a model is an error too."""
    settings = read_settings(spec)
    settings.check_folders()
    if settings.peft:
        check_folder(settings.peft, needed="adapter_config.json")


def read_settings(spec: ModelSpec) -> HfSettings:
    """The settings of a spec, or ``OptionError`` for an unknown or bad argument."""
    given = Arguments("hf").read(spec, HfSettings, REFUSED)
    settings = HfSettings(target=spec.target, **given)
    _refuse_contradictions(settings)
    return settings


def _refuse_contradictions(settings: HfSettings) -> None:
    quantizations = [
        n for n in ("load_in_8bit", "load_in_4bit") if getattr(settings, n)
    ]
    quantizations += ["quantization"] if settings.quantization else []
    if len(quantizations) > 1:
        raise OptionError(
            f"the hf model takes one of {' and '.join(quantizations)}: "
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
    settings.check("hf")


_EXCLUDED = {"batch_size", "batch_tokens", "device", "peft"}
"""Settings that do not affect outputs, or are in the fingerprint in another form."""


def fingerprint(settings: HfSettings, hash_file: HashFile) -> Mapping[str, Any] | None:
    """JSON values that are equal for models with equal outputs. ``hash_file``: path →
    hash of the file's content. Returns ``None`` if unknown, because a name on the Hub
    is neither known here nor can be looked up."""
    shared = engine_fingerprint("hf", settings, hash_file)
    adapter: Mapping[str, Any] | None = {}
    if settings.peft:
        adapter = provenance(settings.peft, "", hash_file)
    if shared is None or adapter is None:
        return None
    excluded = _EXCLUDED | {one.name for one in fields(TokenizerSettings)}
    names = [one.name for one in fields(settings) if one.name not in excluded]
    used = ["peft"] * bool(settings.peft) + ["bitsandbytes"] * settings.quantises
    versions = {name: library_version(name) for name in used}
    return {
        **shared,
        "adapter": adapter,
        **values_of(settings, names),
        "device": settings.device.partition(":")[0],
        "libraries": {**shared["libraries"], **versions},
    }
