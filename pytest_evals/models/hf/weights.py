"""Weights of a Hugging Face model: location, quantization and adapter."""

from __future__ import annotations

import os
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
import transformers

from pytest_evals.errors import MissingExtraError, ModelError
from pytest_evals.models.folders import is_local
from pytest_evals.models.hf.settings import HfSettings


def origin(settings: HfSettings) -> dict[str, Any]:
    """Arguments of every transformers loader."""
    return {
        "pretrained_model_name_or_path": path_of(settings.target),
        "revision": settings.revision or None,
        "trust_remote_code": settings.trust_remote_code,
    }


def path_of(target: str) -> str:
    """The path of a local folder, or the name on the Hub."""
    return str(Path(os.path.expanduser(target))) if is_local(target) else target


def load_weights(settings: HfSettings, config: Any, device: torch.device) -> Any:
    """A model in evaluation mode on its device or devices.

    Raises:
        ModelError: Some weights are missing, or the adapter does not fit.
        MissingExtraError: A library is missing.
    """
    placed = _placement(settings, device)
    dtype = settings.dtype
    causal: Any = transformers.AutoModelForCausalLM
    model, found = causal.from_pretrained(
        **origin(settings),
        config=config,
        dtype=dtype if dtype == "auto" else getattr(torch, dtype),
        output_loading_info=True,
        **_chosen(settings),
        **placed,
    )
    _refuse_gaps(found["missing_keys"], model, settings.target)
    if settings.peft:
        _adapt(model, settings)
    return model.eval() if placed else model.eval().to(device)


def _placement(settings: HfSettings, device: torch.device) -> dict[str, Any]:
    """Device arguments for loading; empty if the model is moved afterwards. Quantized
    models cannot be moved, and moving others takes their size in host memory."""
    if settings.device_map:
        _need("device_map", "accelerate", "accelerate")
        return {"device_map": settings.device_map}
    if settings.quantises:
        _need("quantised loading", "accelerate", "quantized")
        return {"device_map": {"": device}}
    if device.type != "cpu" and find_spec("accelerate") is not None:
        return {"device_map": {"": device}}
    return {}


def _chosen(settings: HfSettings) -> dict[str, Any]:
    chosen: dict[str, Any] = {}
    if settings.attn_implementation:
        chosen["attn_implementation"] = settings.attn_implementation
    if settings.quantises:
        chosen["quantization_config"] = _quantisation(settings)
    return chosen


def _quantisation(settings: HfSettings) -> Any:
    if settings.quantization:
        return dict(settings.quantization)
    name = "load_in_4bit" if settings.load_in_4bit else "load_in_8bit"
    _need(name, "bitsandbytes", "quantized")
    # The arithmetic is done in the type that the user names, as in lm-eval.
    known = {"bnb_4bit_compute_dtype": settings.dtype} if settings.load_in_4bit else {}
    exact = {} if settings.dtype == "auto" else known
    config: Any = transformers.BitsAndBytesConfig
    return config(**{name: True}, **exact)


def _need(what: str, library: str, extra: str) -> None:
    if find_spec(library) is None:
        raise MissingExtraError(f"the hf model's {what}", library, extra)


def _refuse_gaps(missing_keys: Any, model: Any, target: str) -> None:
    missing = sorted(missing_keys)
    if missing:
        shown = ", ".join(missing[:3]) + (" …" if len(missing) > 3 else "")
        raise ModelError(
            f"the checkpoint {target!r} lacks weights of a "
            f"{type(model).__name__}: {shown}; "
            "they would be random, so this is not a model that can be scored"
        )


def _adapt(model: Any, settings: HfSettings) -> None:
    """Add an adapter's layers to the model. They are not merged into its weights, as in
    lm-eval: merging in half precision would round differently.

    Raises:
        ModelError: It does not belong to this model.
    """
    _need("peft", "peft", "peft")
    try:
        with warnings.catch_warnings():
            # Warnings between the two libraries.
            warnings.simplefilter("ignore")
            found = model.load_adapter(path_of(settings.peft))
    # They raise many kinds of exceptions, which all mean the same here.
    except Exception as error:
        line = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ModelError(
            f"cannot load the adapter {settings.peft!r} into {settings.target!r}: "
            f"{line}\n  fix: give peft the adapter of this very model"
        ) from error
    missing = sorted(getattr(found, "missing_keys", ()))
    if missing:
        raise ModelError(
            f"the adapter {settings.peft!r} lacks weights: {', '.join(missing[:3])}"
            f"{' …' if len(missing) > 3 else ''}; is it an adapter of this model?"
        )
