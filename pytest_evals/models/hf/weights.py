"""Weights of a Hugging Face model: location, quantization and adapter."""

from __future__ import annotations

import warnings
from importlib.util import find_spec
from inspect import signature
from typing import Any

import torch
import transformers
from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING
from transformers.utils.hub import cached_file

from pytest_evals.errors import MissingExtraError, ModelError
from pytest_evals.models.folders import PROCESSOR_FILES, path_of
from pytest_evals.models.hf.settings import HfSettings
from pytest_evals.models.tokens.loader import first_line, origin

COMPUTED = ("rotary_emb.inv_freq", "attn.masked_bias", "attention.masked_bias")
"""Ends of names in old checkpoints of what models compute themselves."""
_ADAPTER = "set peft= to an adapter of this model"
MOST_SHOWN = 3  # Maximum of weights that an error names
# transformers 5 logs the sizes, and raises an error without them. Version 4 raises one
# with the sizes; with this argument it would read all weights twice.
_NOT_RAISED: dict[str, Any] = (
    {}
    if transformers.__version__.startswith("4.")
    else {"ignore_mismatched_sizes": True}
)


def load_weights(
    settings: HfSettings, config: Any, device: torch.device, with_images: bool = False
) -> tuple[Any, str]:
    """A model in evaluation mode on its device or devices; and a warning if it does not
    use all weights, such as those of layers that the config leaves out. Raises
    ``ModelError`` if some weights are missing, or the adapter does not fit. Raises
    ``MissingExtraError`` if a library is missing."""
    placed = _placement(settings, device)
    dtype = settings.dtype
    kind: Any = (
        transformers.AutoModelForImageTextToText
        if with_images
        else transformers.AutoModelForCausalLM
    )
    model, found = kind.from_pretrained(
        **origin(settings),
        config=config,
        dtype=dtype if dtype == "auto" else getattr(torch, dtype),
        output_loading_info=True,
        **_NOT_RAISED,
        **_chosen(settings),
        **placed,
    )
    _refuse_gaps(found["missing_keys"], model, settings.target)
    _refuse_other_sizes(
        found["mismatched_keys"],
        f"the config.json and the weights of {settings.target!r}",
        "use a config.json and weights of the same model",
    )
    if settings.peft:
        _adapt(model, settings)
    unused = sorted(n for n in found["unexpected_keys"] if not n.endswith(COMPUTED))
    note = (
        f"the checkpoint {settings.target!r} has weights that the model does not use: "
        f"{_first_of(unused)}; check that its config.json is the right one"
    )
    model = model.eval() if placed else model.eval().to(device)
    return model, note if unused else ""


def reads_images(settings: HfSettings, config: Any) -> bool:
    """Whether a checkpoint is an image-text-to-text model with a processor. Of some
    families, transformers opens the text model alone as well."""
    if type(config) not in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING:
        return False
    source = origin(settings)
    path, revision = source["pretrained_model_name_or_path"], source["revision"]
    return any(
        cached_file(
            path,
            name,
            revision=revision,
            _raise_exceptions_for_missing_entries=False,
            _raise_exceptions_for_connection_errors=False,
        )
        for name in PROCESSOR_FILES
    )


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
        raise ModelError(
            f"the checkpoint {target!r} lacks weights of a "
            f"{type(model).__name__}: {_first_of(missing)}; "
            "they would be random, so this is not a model that can be scored"
        )


def _refuse_other_sizes(mismatched: Any, owners: str, fix: str) -> None:
    """Check that all weights have the sizes that the model needs. ``mismatched``:
    names, with the sizes in the checkpoint and in the model. ``owners``: what does not
    fit, in messages."""
    parts = [
        f"{name} is {tuple(found)} in the checkpoint and {tuple(needed)} in the model"
        for name, found, needed in sorted(mismatched)
    ]
    if parts:
        shown = _first_of(parts, "; ")
        raise ModelError(f"{owners} do not fit: {shown}\n  fix: {fix}")


def _first_of(names: list[str], separator: str = ", ") -> str:
    more = len(names) - MOST_SHOWN
    shown = separator.join(names[:MOST_SHOWN])
    return f"{shown}, and {more} more" if more > 0 else shown


def _adapt(model: Any, settings: HfSettings) -> None:
    """Add an adapter's layers to the model. They are not merged into its weights, as in
    lm-eval: merging in half precision would round differently."""
    _need("peft", "peft", "peft")
    try:
        with warnings.catch_warnings():
            # Warnings between the two libraries.
            warnings.simplefilter("ignore")
            takes_more = "load_config" in signature(model.load_adapter).parameters
            options = _NOT_RAISED if takes_more else {}
            found = model.load_adapter(path_of(settings.peft), **options)
    # They raise many kinds of exceptions, which all mean the same here.
    except Exception as error:
        raise ModelError(
            f"cannot load the adapter {settings.peft!r} into {settings.target!r}: "
            f"{first_line(error)}\n  fix: {_ADAPTER}"
        ) from error
    owner = f"the adapter {settings.peft!r}"
    for name, what in (
        ("missing_keys", "lacks weights"),
        ("unexpected_keys", f"has weights for which {settings.target!r} has no place"),
    ):
        if keys := sorted(getattr(found, name, ())):
            raise ModelError(f"{owner} {what}: {_first_of(keys)}\n  fix: {_ADAPTER}")
    mismatched = getattr(found, "mismatched_keys", ())
    _refuse_other_sizes(mismatched, f"{owner} and {settings.target!r}", _ADAPTER)
