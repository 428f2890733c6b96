"""Numbers and formulas in texts, and whether two are equal: by math-verify, the
successor of lighteval's own code."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from pytest_evals.errors import MissingExtraError

__all__ = [
    "ExprExtractionConfig",
    "LatexExtractionConfig",
    "equal",
    "extract_values",
]

Fallback = Literal["no_fallback", "first_match"]
Mode = Literal["first_match", "any_match"]


@dataclass(frozen=True, slots=True)
class ExprExtractionConfig:
    """Plain numbers and expressions.

    Args:
        try_extract_without_anchor: Whether a number counts that nothing announces.
    """

    try_extract_without_anchor: bool = True


@dataclass(frozen=True, slots=True)
class LatexExtractionConfig:
    """Formulas in LaTeX.

    Args:
        try_extract_without_anchor: Whether a formula counts that nothing announces.
        boxed_match_priority: The smaller, the sooner ``\\boxed{}`` counts: 0 before
            everything, -1 never.
    """

    try_extract_without_anchor: bool = True
    boxed_match_priority: int = 55


MathsConfig = ExprExtractionConfig | LatexExtractionConfig


def extract_values(
    text: str,
    configs: Sequence[MathsConfig],
    fallback: Fallback,
    mode: Mode,
    timeout_s: int,
) -> list[Any]:
    """The value and the text that it was extracted from; empty if nothing
    was found.

    Args:
        text: The text.
        configs: What is looked for.
        fallback: Whether the first match is kept as a text.
        mode: Whether matches behind one that cannot be read are tried.
        timeout_s: Seconds after which reading counts as failed; not looked at outside
            of the main thread, where nothing can be interrupted.

    Raises:
        MissingExtraError: math-verify is not installed.
    """
    found: list[Any] = _library().parse(
        text,
        extraction_config=_library_configs(tuple(configs)),
        fallback_mode=fallback,
        extraction_mode=mode,
        parsing_timeout=_limit(timeout_s),
    )
    return found


def equal(
    gold: Sequence[Any], pred: Sequence[Any], precision: int, timeout_s: int
) -> bool:
    """Whether any reading of the reference equals any of the answer.

    Args:
        gold: Readings of the reference, as :func:`extract_values` gives them.
        pred: Readings of the answer.
        precision: Decimals to which numbers with a decimal point are rounded.
        timeout_s: As in :func:`extract_values`; what takes longer is not equal.

    Raises:
        MissingExtraError: math-verify is not installed.
    """
    return bool(
        _library().verify(
            list(gold),
            list(pred),
            float_rounding=precision,
            timeout_seconds=_limit(timeout_s),
        )
    )


def _limit(timeout_s: int) -> int | None:
    """Their clock is a signal, which only the main thread gets."""
    main = threading.current_thread() is threading.main_thread()
    return timeout_s if main else None


def _library() -> Any:
    try:
        import math_verify
    except ModuleNotFoundError as error:
        raise MissingExtraError("extractive match", "math-verify", "metrics") from error
    return math_verify


@lru_cache(maxsize=32)
def _library_configs(configs: tuple[MathsConfig, ...]) -> tuple[Any, ...]:
    library = _library()
    made: list[Any] = []
    for config in configs:
        without = config.try_extract_without_anchor
        if isinstance(config, ExprExtractionConfig):
            made.append(library.ExprExtractionConfig(without))
        else:
            priority = config.boxed_match_priority
            made.append(
                library.LatexExtractionConfig(
                    try_extract_without_anchor=without, boxed_match_priority=priority
                )
            )
    return tuple(made)
