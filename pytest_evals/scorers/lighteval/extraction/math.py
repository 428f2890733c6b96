"""Extraction and comparison of numbers and formulas by math-verify, the successor of
lighteval's code."""

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
        try_extract_without_anchor: Also match numbers without a phrase such as
            "answer is".
    """

    try_extract_without_anchor: bool = True


@dataclass(frozen=True, slots=True)
class LatexExtractionConfig:
    """Formulas in LaTeX.

    Args:
        try_extract_without_anchor: Also match formulas without a phrase such as
            "answer is".
        boxed_match_priority: Priority of ``\\boxed{}``: 0 is the highest, -1 disables
            it.
    """

    try_extract_without_anchor: bool = True
    boxed_match_priority: int = 55


FormulaConfig = ExprExtractionConfig | LatexExtractionConfig


def extract_values(
    text: str,
    configs: Sequence[FormulaConfig],
    fallback: Fallback,
    mode: Mode,
    timeout_s: int,
) -> list[Any]:
    """Return the extracted value and its source string; empty without a match.

    Args:
        fallback: Whether to keep the first match as a string.
        mode: Whether to try the matches after one that cannot be parsed.
        timeout_s: Time limit for parsing; ignored outside of the main thread.
    """
    values: list[Any] = _library().parse(
        text,
        extraction_config=_library_configs(tuple(configs)),
        fallback_mode=fallback,
        extraction_mode=mode,
        parsing_timeout=_limit(timeout_s),
    )
    return values


def equal(
    gold: Sequence[Any], pred: Sequence[Any], precision: int, timeout_s: int
) -> bool:
    """Return whether any value of the reference equals any value of the answer.

    Args:
        gold: Values of the reference, from :func:`extract_values`.
        timeout_s: As in :func:`extract_values`; values are not equal on timeout.
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
    """Return the time limit; ``None`` outside of the main thread."""
    # math-verify uses SIGALRM, which only works in the main thread.
    main = threading.current_thread() is threading.main_thread()
    return timeout_s if main else None


def _library() -> Any:
    try:
        import math_verify
    except ModuleNotFoundError as error:
        raise MissingExtraError("extractive match", "math-verify", "metrics") from error
    return math_verify


@lru_cache(maxsize=32)
def _library_configs(configs: tuple[FormulaConfig, ...]) -> tuple[Any, ...]:
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
