"""Checks generation arguments for misspelled names and invalid values.

Names that do not resemble a known one are accepted, because a kind of model may support
them. Arguments are not used or changed here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from pytest_evals.core.finite import is_finite
from pytest_evals.errors import nearest, number_fix

_NEAR = 0.8
"""Minimum similarity of a typo. ``max_thinking_tokens`` is a valid name with a
similarity of 0.7 to ``max_tokens``."""


class ArgumentError(NamedTuple):
    """An invalid argument; ``what`` describes the error."""

    key: Any
    what: str
    fix: str = ""


def argument_errors(given: Mapping[Any, Any]) -> Iterator[ArgumentError]:
    """Yield the error of every invalid argument, in order; ``None`` is always valid."""
    for key, value in given.items():
        if not isinstance(key, str):
            yield ArgumentError(
                key, f"the name of an argument must be a string, not {key!r}"
            )
        elif key not in _KNOWN:
            word = key.replace("-", "_")
            near = nearest(word, _KNOWN, _NEAR)
            if near:
                what = f"unknown argument {key!r}; did you mean {near!r}?"
                yield ArgumentError(key, what)
        elif value is not None:
            fits, expected = _KNOWN[key]
            if not fits(value):
                is_text = isinstance(value, str) and "true" not in expected
                fix = number_fix(key, value) if is_text else ""
                what = f"{key} must be {expected}, not {value!r}"
                yield ArgumentError(key, what, fix)


_Kind = tuple[Callable[[Any], bool], str]
"""Check of a value, and the description of valid values."""


def _number(minimum: float, maximum: float, expected: str) -> _Kind:
    return lambda value: is_finite(value) and minimum <= value <= maximum, expected


def _integer(minimum: int) -> _Kind:
    return (
        lambda value: is_finite(value) and minimum <= value == int(value),
        f"an integer from {minimum}",
    )


def _is_length(value: Any) -> bool:
    """Accept digit strings too, as lm-eval does."""
    digits = isinstance(value, str) and value.isascii() and value.isdigit()
    value = int(value) if digits else value
    return is_finite(value) and 1 <= value == int(value)


def _is_temperature(value: Any) -> bool:
    """Accept numeric strings too, because YAML reads ``1e-5`` as a string."""
    try:
        return not isinstance(value, bool) and 0 <= float(value) < math.inf
    except (TypeError, ValueError, OverflowError):
        return False


_ANY: _Kind = (lambda _value: True), "anything"
_SHARE = _number(0, 1, "a number from 0 to 1")
_REAL = _number(-math.inf, math.inf, "a number")

_ENGINE_NAMES = (
    "assistant_confidence_threshold", "assistant_early_exit",
    "assistant_ensemble_weight", "assistant_lookbehind", "bad_words", "bad_words_ids",
    "begin_suppress_tokens", "bos_token_id", "cache_config", "cache_implementation",
    "compile_config", "constraints", "continuous_batching_config",
    "decoder_start_token_id", "disable_compile", "dola_layers",
    "encoder_no_repeat_ngram_size", "encoder_repetition_penalty", "eos_token_id",
    "exponential_decay_length_penalty", "force_words_ids", "forced_bos_token_id",
    "forced_eos_token_id", "is_assistant", "low_memory", "max_cache_len",
    "max_matching_ngram_size", "num_assistant_tokens", "num_assistant_tokens_schedule",
    "output_attentions", "output_hidden_states", "output_logits", "output_scores",
    "pad_token_id", "prefill_chunk_size", "prompt_lookup_num_tokens",
    "remove_invalid_values", "renormalize_logits", "return_dict_in_generate",
    "sequence_bias", "speculation_type", "stop_strings", "stop_token_ids",
    "suppress_tokens", "target_lookbehind", "token_healing", "top_a", "top_h",
    "transformers_version", "use_cache", "use_mtp", "watermarking_config",
)  # fmt: skip
"""Names that some engines support; the engines check their values."""

_KNOWN: Mapping[str, _Kind] = {
    "until": _ANY,  # checked by the reader of generation_kwargs
    **dict.fromkeys(
        ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens"),
        (_is_length, "an integer from 1"),
    ),
    # lm-eval accepts 1 and 0 as true and false.
    "do_sample": (lambda value: value in (0, 1), "true or false"),
    "temperature": (_is_temperature, "a number from 0"),
    "top_p": _SHARE,
    "min_p": _SHARE,
    "typical_p": _SHARE,
    "epsilon_cutoff": _SHARE,
    "eta_cutoff": _SHARE,
    "top_k": _integer(-1),  # -1 means all tokens to some servers
    "seed": _integer(-1),
    "num_beams": _integer(1),
    "num_beam_groups": _integer(1),
    "num_return_sequences": _integer(1),
    "no_repeat_ngram_size": _integer(0),
    "min_new_tokens": _integer(0),
    "min_tokens": _integer(0),
    "min_length": _integer(0),
    "max_length": _integer(1),
    "max_time": _number(0, math.inf, "a number from 0"),
    "repetition_penalty": (
        lambda value: is_finite(value) and value > 0,
        "a number above 0",
    ),
    "length_penalty": _REAL,
    "presence_penalty": _REAL,
    "frequency_penalty": _REAL,
    "diversity_penalty": _REAL,
    "penalty_alpha": _REAL,
    "guidance_scale": _REAL,
    "early_stopping": (
        lambda value: isinstance(value, bool) or value == "never",
        "true, false or 'never'",
    ),
    **dict.fromkeys(_ENGINE_NAMES, _ANY),
}
"""Names that common engines support, so that none of them is reported as a typo."""
