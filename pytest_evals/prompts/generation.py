"""Reads ``generation_kwargs`` into one form for all models, and checks arguments for
misspelled names and invalid values.

Names that do not resemble a known one are accepted, because a kind of model may support
them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from pytest_evals.core.finite import is_finite
from pytest_evals.core.request import Generate, Prompt
from pytest_evals.errors import EvalsError, OptionError, nearest, number_fix

_LENGTHS = ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens")
"""Synonyms; the first one that is set is used."""
_ONLY_SAMPLING = {"top_p", "top_k", "min_p", "typical_p", "seed"}
"""Options without effect in greedy decoding."""
_OPTION = "--evals-gen-kwargs"
GREEDY = {"temperature": 0.0, "do_sample": False, "max_gen_toks": 256}
"""Arguments of a task without ``generation_kwargs`` (lm-eval 0.4.13, ``defaults.py``).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """Sampling settings; fields as in :class:`Generate`."""

    stop: tuple[str, ...] = ()
    max_tokens: int = 256
    temperature: float = 0.0
    options: tuple[tuple[str, Any], ...] = ()

    def requests(
        self, prompt: Prompt, repeats: int, conversation: str = ""
    ) -> tuple[Generate, ...]:
        """Return one request per answer, also for greedy decoding: only the model that
        receives them determines whether their responses are equal."""
        return tuple(
            Generate(
                prompt,
                stop=self.stop,
                max_tokens=self.max_tokens,
                temperature=self.temperature,
                options=self.options,
                repeat=number,
                conversation=conversation,
            )
            for number in range(repeats)
        )


class SamplingResult(NamedTuple):
    """The settings, and warnings about them."""

    sampling: Sampling
    warnings: tuple[str, ...]


def check_overrides(overrides: Mapping[str, Any]) -> None:
    """Check generation arguments of the command line before any task is read. Raises
    OptionError if an argument is invalid; the message names the option."""
    faults = [fault.message for fault in argument_errors(overrides)]
    if faults:
        raise OptionError(f"{_OPTION}: {'; '.join(faults)}")
    try:
        read_sampling(None, overrides, "")
    except EvalsError as error:
        raise OptionError(f"{_OPTION}: {error}") from None


def read_sampling(
    given: Mapping[str, Any] | None,
    overrides: Mapping[str, Any],
    fewshot_delimiter: str,
) -> SamplingResult:
    """Return the settings of a task, interpreted as in lm-eval 0.4.13
    (``config/task.py`` and ``models/utils.py``, ``normalize_gen_kwargs``). ``given``:
    ``generation_kwargs`` of the task file, ``None`` for greedy decoding.
    ``fewshot_delimiter``: the stop string if the task has none. Raises EvalsError if a
    value is invalid; the message names it."""
    merged = {**(dict(GREEDY) if given is None else given)}
    merged.setdefault("until", [fewshot_delimiter])
    merged.update(overrides)
    warnings: list[str] = []
    stop = _stop(merged.pop("until"), warnings)
    lengths = {k: merged.pop(k) for k in _LENGTHS if merged.get(k) is not None}
    for key in _LENGTHS:
        merged.pop(key, None)
    winner = next(iter(lengths), "max_gen_toks")
    for key in lengths:
        if key != winner and key in overrides:
            warnings.append(
                f"{winner}={lengths[winner]} of the task overrides the option "
                f"{key}={lengths[key]}, as in lm-eval; give {winner} instead"
            )
    max_tokens = lengths.get(winner, 256)
    converted = {k: merged.get(k) for k in ("do_sample", "temperature")}
    for error in argument_errors({winner: max_tokens, **converted}):
        raise EvalsError(error.message)
    temperature = _temperature(merged, warnings)
    if temperature == 0:
        merged = {k: v for k, v in merged.items() if k not in _ONLY_SAMPLING}
    options = tuple(sorted((k, _plain(k, v)) for k, v in merged.items()))
    sampling = Sampling(
        stop=stop, max_tokens=int(max_tokens), temperature=temperature, options=options
    )
    return SamplingResult(sampling, tuple(warnings))


def _stop(until: Any, warnings: list[str]) -> tuple[str, ...]:
    texts = [] if until is None else until if isinstance(until, list) else [until]
    for text in texts:
        if not isinstance(text, str):
            message = f"until: a stop string must be a string, not {text!r}"
            raise EvalsError(f"{message}; quote it")
    if "" in texts:
        warnings.append(
            "until: an empty stop string is ignored; lm-eval's hf model stops after "
            "the first token"
        )
    return tuple(text for text in texts if text)


def _temperature(merged: dict[str, Any], warnings: list[str]) -> float:
    """Return the temperature, 0 for greedy; removes both keys from ``merged``."""
    do_sample, given = merged.pop("do_sample", None), merged.pop("temperature", None)
    temperature = float(given or 0.0)
    if do_sample is not None and not do_sample and temperature > 0:
        warnings.append(
            f"do_sample: false makes temperature {temperature:g} greedy, as in lm-eval"
        )
        return 0.0
    if do_sample and given is None:
        return 1.0
    if do_sample and temperature == 0:
        warnings.append("do_sample: true with temperature 0 is greedy decoding")
    return temperature


def _plain(key: str, value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_plain(key, item) for item in value)
    if value is None or isinstance(value, str | int | float):
        return value
    raise EvalsError(f"{key} must be a number, a string or a list, not {value!r}")


_NEAR = 0.8
"""Minimum similarity of a typo. ``max_thinking_tokens`` is a valid name with a
similarity of 0.7 to ``max_tokens``."""


class ArgumentError(NamedTuple):
    """An invalid argument; ``message`` describes the error."""

    key: Any
    message: str
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
                message = f"unknown argument {key!r}; did you mean {near!r}?"
                yield ArgumentError(key, message)
        elif value is not None:
            fits, expected = _KNOWN[key]
            if not fits(value):
                is_text = isinstance(value, str) and "true" not in expected
                fix = number_fix(key, value) if is_text else ""
                message = f"{key} must be {expected}, not {value!r}"
                yield ArgumentError(key, message, fix)


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
