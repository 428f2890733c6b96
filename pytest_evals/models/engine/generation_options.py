"""Generation options: names and valid values.

They are the options of transformers' ``generate``, which lm-eval uses; a request or a
model's ``generation_config`` may set any option that lm-eval can pass on.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from transformers import GenerationConfig

from pytest_evals.core.key import public_options
from pytest_evals.core.request import TOOLS, Generate, shows_images
from pytest_evals.core.top_logprobs import without_top_logprobs
from pytest_evals.errors import ModelError, did_you_mean

SEED = "seed"  # The only option that ``generate`` does not have
DIGITS = 6  # Decimal places of top log-probabilities
DEFAULTS: Mapping[str, Any] = {
    "repetition_penalty": 1.0,
    "no_repeat_ngram_size": 0,
    "top_k": 50,
    "top_p": 1.0,
    "min_p": None,
    "typical_p": 1.0,
    "num_beams": 1,
    "length_penalty": 1.0,
    "early_stopping": False,
}
"""Defaults of transformers if neither the request nor the model sets the option."""
ONLY_DRAWING = {
    "epsilon_cutoff",
    "eta_cutoff",
    "min_p",
    "top_h",
    "top_k",
    "top_p",
    "typical_p",
}
"""Options that greedy decoding ignores."""
WITHOUT_EFFECT = {
    "assistant_confidence_threshold",
    "assistant_early_exit",
    "assistant_ensemble_weight",
    "assistant_lookbehind",
    "bos_token_id",
    "cache_config",
    "cache_implementation",
    "compile_config",
    "continuous_batching_config",
    "decoder_start_token_id",
    "disable_compile",
    "do_sample",
    "is_assistant",
    "low_memory",
    "max_cache_len",
    "max_length",
    "max_matching_ngram_size",
    "num_assistant_tokens",
    "num_assistant_tokens_schedule",
    "num_return_sequences",
    "output_attentions",
    "output_hidden_states",
    "output_logits",
    "output_scores",
    "prefill_chunk_size",
    "prompt_lookup_num_tokens",
    "target_lookbehind",
    "temperature",
    "transformers_version",
}
"""Options that are handled elsewhere or do not affect the next token."""
_OF_MODEL = {
    "eos_token_id",
    "max_new_tokens",
    "pad_token_id",
    "return_dict_in_generate",
    "use_cache",
}
"""Options that are ignored if the model's ``generation_config`` sets them."""
_REFUSED = {
    "max_new_tokens": "every request has its own limit",
    "pad_token_id": "lm-eval sets it itself",
    "return_dict_in_generate": "the answer is a text",
    "stop_strings": "until has the stop strings",
    "token_healing": "it changes the prompt",
    "use_cache": "lm-eval sets it itself",
}
"""Options that cannot be passed to ``generate``, with the reason."""


def _is_number(value: Any) -> bool:
    # True is an int to Python, but is a mistake here.
    is_real = isinstance(value, int | float) and not isinstance(value, bool)
    return is_real and abs(value) <= sys.float_info.max


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


_Rule = tuple[str, Callable[[Any], bool]]
_SHARE: _Rule = "a number above 0 and at most 1", lambda v: _is_number(v) and 0 < v <= 1
_COUNT: _Rule = "a whole number, 0 or more", lambda v: _is_whole(v) and v >= 0
_POSITIVE: _Rule = "a whole number, 1 or more", lambda v: _is_whole(v) and v >= 1
_RULES: Mapping[str, _Rule] = {
    "do_sample": ("true or false", lambda v: isinstance(v, bool)),
    "temperature": ("a number, 0 or more", lambda v: _is_number(v) and v >= 0),
    "repetition_penalty": ("a number above 0", lambda v: _is_number(v) and v > 0),
    "no_repeat_ngram_size": _COUNT,
    "top_k": _COUNT,
    "top_p": _SHARE,
    "min_p": ("a number from 0 to 1", lambda v: _is_number(v) and 0 <= v <= 1),
    "typical_p": _SHARE,
    "num_beams": _POSITIVE,
    "length_penalty": ("a number", _is_number),
    "early_stopping": (
        "true, false or 'never'",
        lambda v: isinstance(v, bool) or v == "never",
    ),
    "max_length": _POSITIVE,
    "top_logprobs": _COUNT,
    SEED: ("a whole number", _is_whole),
    "num_return_sequences": ("1", lambda v: _is_whole(v) and v == 1),
}
"""Valid values of options: description and test. transformers checks those of
others."""

_OFF: tuple[Any, ...] = (None, False, 0, 1.0, (), [])  # Values that disable an option


def without_tools(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options without tools, which are in the prompt, and servers' defaults."""
    return {
        name: value
        for name, value in options.items()
        if name != TOOLS and (name, value) not in _TOOL_DEFAULTS
    }


_TOOL_DEFAULTS = (("tool_choice", "auto"), ("parallel_tool_calls", True))


def check_config(config: Any) -> None:
    """Check that a model's ``generation_config`` has no unsupported option."""
    for name, value in config.to_diff_dict().items():
        if name in _REFUSED and name not in _OF_MODEL and value not in _OFF:
            raise ModelError(
                f"the model's generation_config sets {name!r}, which is not supported: "
                f"{_REFUSED[name]}; take it out of generation_config.json"
            )


def slow_settings(config: Any) -> tuple[str, ...]:
    """Options of a model's ``generation_config`` that only ``generate`` supports."""
    return tuple(
        name
        for name, value in config.to_diff_dict().items()
        if name in _names() - _OF_MODEL and is_slow(name) and not _is_off(name, value)
    )


def is_slow(name: str) -> bool:
    """Whether only ``generate`` supports an existing option."""
    return name not in DEFAULTS and name not in WITHOUT_EFFECT


def unknown(options: Mapping[str, Any]) -> str:
    """Error message for the first unknown or refused option; empty if all are valid."""
    for name, value in options.items():
        if name in _REFUSED and value is not None:
            return f"the hf model takes no option {name!r}: {_REFUSED[name]}"
        if name not in _names():
            names = sorted(_names() - WITHOUT_EFFECT - _REFUSED.keys())
            known = "; known are those of transformers' GenerationConfig"
            hint = did_you_mean(name, names) or known
            return f"the hf model has no generation option {name!r}{hint}"
    return ""


def bad_value(settings: Mapping[str, Any]) -> str:
    """Error message for the first invalid value; empty if all are valid."""
    for name, value in settings.items():
        words, allows = _RULES.get(name, ("", bool))
        if words and value is not None and not allows(value):
            return f"{name} is {value!r}; it must be {words}"
    return ""


@cache
def _names() -> frozenset[str]:
    kind: Any = GenerationConfig
    return frozenset(name for name in kind().to_dict() if not name.startswith("_"))


def _is_off(name: str, value: Any) -> bool:
    # 0 is a token like any other.
    return value is None or (value in _OFF and not name.endswith(("_id", "_ids")))


def seed_of(request: Generate) -> int:
    """The request's own seed, the same in every process. Of images their content is
    part of it, not their place."""
    if shows_images(request):
        request = replace(request, options=public_options(request.options))
    text = repr(without_top_logprobs(request))
    return int.from_bytes(hashlib.sha256(text.encode()).digest(), "big")
