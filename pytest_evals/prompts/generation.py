"""Reads ``generation_kwargs`` into one form for all models."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from pytest_evals.core.request import Generate, Prompt
from pytest_evals.errors import EvalsError, OptionError
from pytest_evals.prompts.arguments import argument_errors

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
    """Check generation arguments of the command line before any task is read.

    Raises:
        OptionError: An argument is invalid; the message names the option.
    """
    faults = [fault.what for fault in argument_errors(overrides)]
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
    (``config/task.py`` and ``models/utils.py``, ``normalize_gen_kwargs``).

    Args:
        given: ``generation_kwargs`` of the task file, ``None`` for greedy decoding.
        fewshot_delimiter: The stop string if the task has none.

    Raises:
        EvalsError: A value is invalid; the message names it.
    """
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
    max_tokens = _integer(winner, lengths.get(winner, 256))
    temperature = _temperature(merged, warnings)
    if temperature == 0:
        merged = {k: v for k, v in merged.items() if k not in _ONLY_SAMPLING}
    options = tuple(sorted((k, _plain(k, v)) for k, v in merged.items()))
    sampling = Sampling(
        stop=stop, max_tokens=max_tokens, temperature=temperature, options=options
    )
    return SamplingResult(sampling, tuple(warnings))


def _stop(until: Any, warnings: list[str]) -> tuple[str, ...]:
    texts = [] if until is None else until if isinstance(until, list) else [until]
    for text in texts:
        if not isinstance(text, str):
            what = f"until: a stop string must be a string, not {text!r}"
            raise EvalsError(f"{what}; quote it")
    if "" in texts:
        warnings.append(
            "until: an empty stop string is ignored; lm-eval's hf model stops after "
            "the first token"
        )
    return tuple(text for text in texts if text)


def _integer(key: str, value: Any) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 1 <= value < math.inf or value != int(value):
        raise EvalsError(f"{key} must be an integer from 1, not {value!r}")
    return int(value)


def _temperature(merged: dict[str, Any], warnings: list[str]) -> float:
    """Return the temperature, 0 for greedy; removes both keys from ``merged``."""
    do_sample = merged.pop("do_sample", None)
    if isinstance(do_sample, int | float) and do_sample in (0, 1):
        do_sample = bool(do_sample)
    if do_sample is not None and not isinstance(do_sample, bool):
        raise EvalsError(f"do_sample must be true or false, not {do_sample!r}")
    given = merged.pop("temperature", None)
    try:
        temperature = float(given if given is not None else 0.0)
    except (TypeError, ValueError):
        temperature = -1.0
    if isinstance(given, bool) or not 0 <= temperature < float("inf"):
        raise EvalsError(f"temperature must be a number from 0, not {given!r}")
    if do_sample is False and temperature > 0:
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
