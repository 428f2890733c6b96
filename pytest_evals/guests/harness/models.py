"""Models of other harnesses' runs: opened from their arguments, and asked for all
responses of a run."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from pytest_evals.core.model import Model, ModelLike
from pytest_evals.core.request import Request, Response, as_sent
from pytest_evals.core.response_contract import as_model, described, responses_of
from pytest_evals.errors import OptionError
from pytest_evals.models.registry import open_model, parse_spec
from pytest_evals.models.spec import ModelSpec

_WITHOUT_EFFECT: Mapping[str, tuple[str, ...]] = {
    "autogptq": ("false", "true"),
    "backend": ("default", "causal"),
    "gptqmodel": ("false", "true"),
    "logits_cache": ("false", "true"),
    "offload_folder": ("./offload",),
    "parallelize": ("false",),
    "softmax_dtype": ("float32", "torch.float32"),
    "subfolder": ("",),
    "truncation": ("false",),
    "use_fast_tokenizer": ("true",),
}
"""Arguments of lm-eval's ``hf`` → values that describe what always happens here."""
_RENAMED = {"quantization_config": "quantization"}
_BNB = "bnb_4bit_"


class OnceLogger:
    """Logs each warning once."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._logged: set[str] = set()

    def __call__(self, warnings: Iterable[str]) -> None:
        """Log the warnings that have not been logged."""
        for warning in warnings:
            if warning not in self._logged:
                self._logged.add(warning)
                self._log.warning("%s", warning)


def open_from(
    pretrained: str,
    model: str | ModelLike,
    arguments: Mapping[str, Any],
    hf_only: Mapping[str, Any] = MappingProxyType({}),
) -> Model:
    """Open the model of a harness.

    Args:
        pretrained: Folder or name of a Hugging Face model.
        model: Or a spec or an object.
        arguments: Arguments of the model, by the names of lm-eval's ``hf`` model.
        hf_only: Further arguments of an ``hf:`` spec, for other kinds unknown.

    Raises:
        OptionError: Not exactly one model is given, or an argument is invalid.
        MissingExtraError: A library that the model needs is not installed.
        ModelError: The model cannot be opened.
    """
    if bool(pretrained) == bool(model):
        raise OptionError(
            "pass either pretrained=, a Hugging Face model, or model=, a spec such "
            "as 'openai:gpt-4o'"
        )
    given = {name: v for name, v in arguments.items() if v is not None}
    if pretrained:
        if not isinstance(pretrained, str):
            raise OptionError(
                f"pretrained is {described(pretrained)}; pass a folder or a name"
            )
        known = hf_arguments({**hf_only, **given})
        return open_model(ModelSpec(kind="hf", target=pretrained, arguments=known))
    if not isinstance(model, str):
        if given:
            raise OptionError(
                f"a model object takes no arguments: {', '.join(sorted(given))}"
            )
        return as_model(model, "model")
    spec = parse_spec(model)
    twice = sorted(given.keys() & spec.arguments.keys())
    if twice:
        raise OptionError(
            f"set twice, in the spec and as an argument: {', '.join(twice)}"
        )
    is_hf = spec.kind == "hf"
    added = hf_arguments({**hf_only, **given}) if is_hf else _texts(given)
    return open_model(replace(spec, arguments={**added, **spec.arguments}))


def hf_arguments(given: Mapping[str, Any]) -> dict[str, str]:
    """Return arguments of lm-eval's ``hf`` model as arguments of an ``hf:`` spec."""
    texts = _texts({_RENAMED.get(name, name): v for name, v in given.items()})
    for name, values in _WITHOUT_EFFECT.items():
        if texts.get(name, "").lower() in values:
            texts.pop(name, None)
    if texts.get("parallelize") == "true":
        del texts["parallelize"]
        texts.pop("device", None)  # the map selects devices, as in lm-eval
        texts["device_map"] = "auto"
    bnb = {name: texts.pop(name) for name in [*texts] if name.startswith(_BNB)}
    if bnb and texts.pop("load_in_4bit", "") == "true":
        config = {"quant_method": "bitsandbytes", "load_in_4bit": True}
        texts["quantization"] = json.dumps({**config, **{n: given[n] for n in bnb}})
    elif bnb:
        raise OptionError(f"{', '.join(bnb)}: only with load_in_4bit=True")
    return texts


def _texts(given: Mapping[str, Any]) -> dict[str, str]:
    """Return values as they are written in specs."""
    texts = {}
    for name, value in given.items():
        if isinstance(value, bool | dict | list):
            texts[name] = json.dumps(value)
        elif isinstance(value, str | int | float) or name.endswith("dtype"):
            texts[name] = str(value)
        else:
            raise OptionError(
                f"{name} is {described(value)}; pass a string, a number or a mapping"
            )
    return texts


def responses(
    model: Model, requests: Sequence[Request], label: str, quiet: bool
) -> Iterator[tuple[int, Response]]:
    """Responses with the positions of their requests, with a progress bar. Equal
    requests are sent once; requests without a response get an error."""
    from tqdm import tqdm

    places: dict[Request, list[int]] = {}
    is_deterministic = model.is_deterministic
    for place, request in enumerate(requests):
        places.setdefault(as_sent(request, is_deterministic), []).append(place)
    distinct = [*places]
    with tqdm(total=len(requests), desc=label, disable=quiet) as bar:
        for position, response in responses_of(distinct, model):
            for place in places.pop(distinct[position]):
                bar.update()
                yield place, response
    for rest in places.values():
        for place in rest:
            yield place, Response(error="no response")


def failure(model: Model, count: str, where: str, why: str, fix: str) -> str:
    """The message of failed requests: their number and kind, and the first of them."""
    return f"{model}: {count} requests failed\n  first: {where}{why}\n  fix: {fix}"
