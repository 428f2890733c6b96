"""Values of matches, and their comparison by math-verify, the successor of lighteval's
code."""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from importlib.metadata import version
from inspect import signature
from typing import Any

from pytest_evals.errors import EvalsError, MissingExtraError
from pytest_evals.guests.lighteval.metrics.extraction.formulas import (
    ENVIRONMENT,
    LatexExtractionConfig,
)

__all__ = [
    "compare_gold_target",
    "difference",
    "latex_value",
    "number_value",
    "require_library",
    "sympy_expr_eq",
]

Found = tuple[Any, str]
"""A value, ``None`` if it cannot be parsed, and its source."""


def require_library() -> None:
    """Import math-verify.

    Raises:
        MissingExtraError: It is not installed.
    """
    try:
        import math_verify  # noqa: F401
    except ModuleNotFoundError as error:
        raise MissingExtraError("extractive match", "math-verify", "metrics") from error


def number_value(groups: Sequence[str | None], timeout_s: int) -> Found:
    """Return the value of a match of a number or expression."""
    import sympy
    from sympy.parsing import parse_expr

    expression, number, percent = groups
    if not number:
        source = expression or ""
        text = source.replace("\n", " ").replace("^", "**")
        return _attempt(timeout_s, parse_expr, text, evaluate=False), source
    source = _without_separators(number)
    value = _attempt(timeout_s, sympy.Number, source)
    return _percentage(value) if percent else value, source


def _without_separators(number: str) -> str:
    """Return a number with a decimal point, without separators of thousands."""
    grouped = re.fullmatch(r"-?\d{1,3}([ ,]\d{3})+(\.\d+)?", number)
    number = re.sub("[ ,]", "", number) if grouped else number.replace(",", ".")
    integer, point, decimals = number.partition(".")
    return (integer.lstrip("0") or "0") + point + decimals


def latex_value(
    groups: Sequence[str | None], config: LatexExtractionConfig, timeout_s: int
) -> Found:
    """Return the value of a match of formulas; several are a set."""
    from latex2sympy2_extended.latex2sympy2 import NormalizationConfig, normalize_latex
    from latex2sympy2_extended.sets import FiniteSet
    from sympy import FiniteSet as SympyFiniteSet

    how = config.normalization_config or NormalizationConfig(
        basic_latex=True,
        units=True,
        malformed_operators=True,
        nits=True,
        boxed="all",
        equations=_is_old(),  # later releases parse chains of equations
    )
    *lone, last = groups
    parts: list[tuple[Any, str | None]] = [(last, None)]
    if lone:
        how = replace(how, boxed="last")
    else:
        found = [one.groups() for one in ENVIRONMENT.finditer(last or "")]
        parts = [(next(filter(None, texts)), percent) for *texts, percent in found]
    sources = [normalize_latex(text, config=how) for text, _ in parts]
    values = [
        _percentage(value) if percent else value
        for (_, percent), source in zip(parts, sources, strict=True)
        for value in [_attempt(timeout_s, _parsed, source)]
    ]
    if len(values) == 1 or any(value is None for value in values):
        return values[0], sources[0]
    flat: list[Any] = []
    for value in values:
        flat += value.args if isinstance(value, SympyFiniteSet) else [value]
    return FiniteSet(*flat), " and ".join(sources)


def _parsed(latex: str) -> Any:
    from latex2sympy2_extended.latex2sympy2 import latex2sympy
    from math_verify.grader import should_treat_as_complex

    return latex2sympy(
        latex,
        is_real=not should_treat_as_complex(latex),
        convert_degrees=False,
        normalization_config=None,
    )


def _percentage(value: Any) -> Any:
    from latex2sympy2_extended.latex2sympy2 import convert_to_pct

    return None if value is None else convert_to_pct(value)


def compare_gold_target(
    gold: Any,
    target: Any,
    precision: int = 6,
    strict: bool = True,
    timeout_seconds: int = 3,
) -> bool:
    """Return whether any value of the reference equals any value of the answer.

    Args:
        gold: A value of the reference, or several.
        target: A value of the answer, or several.
        precision: Decimal places to which decimal numbers are rounded.
        strict: Whether the names of variables matter.
        timeout_seconds: Time limit of a comparison; ignored outside of the main thread.
            Values are not equal on timeout.
    """
    from math_verify import verify

    limit = timeout_seconds if _in_main_thread() else None
    if limit is None and _is_old():
        raise EvalsError(
            "math-verify before 0.9 compares formulas in the main thread only\n  fix: "
            "pip install 'math-verify>=0.9', or call evaluate() in the main thread"
        )
    found = verify(gold, target, precision, strict=strict, timeout_seconds=limit)
    return bool(found)


@cache
def _is_old() -> bool:
    """Return whether math-verify is older than 0.9; lighteval 0.13.0 has the code of
    0.5.2."""
    from math_verify import verify

    return "float_rounding" not in signature(verify).parameters


_BOXES = re.compile(r"\\boxed.*\\boxed", re.DOTALL)
_ASSIGNMENTS = re.compile(r"=[^$]*\\text\s*\{[^$]*=")
_PERCENT = re.compile(r"\d\s*(?:\\%|!)")
_IRRATIONAL = re.compile(r"\\sqrt|\\pi|\bpi\b|sqrt\(")
_DECIMAL = re.compile(r"\d[.,]\d")


def difference(gold: str, answer: str) -> str | None:
    """Return a warning if math-verify is known to compare such texts differently from
    lighteval: one of the differences that were recorded."""
    if _is_old():
        return None
    both = f"{gold}\n{answer}"
    pairs = ((gold, answer), (answer, gold))
    if any(_BOXES.search(one) for one in (gold, answer)):
        what = "several \\boxed{} in a text"
    elif any(_ASSIGNMENTS.search(one) for one in (gold, answer)):
        what = "assignments with text between them"
    elif _PERCENT.search(both):
        what = "percent signs and factorials in formulas"
    elif any(_IRRATIONAL.search(a) and _DECIMAL.search(b) for a, b in pairs):
        what = "an irrational and a decimal number"
    else:
        return None
    return (
        f"math-verify {version('math-verify')} may compare {what} differently from "
        "lighteval 0.13.0; for its verdicts: pip install math-verify==0.5.2 "
        "latex2sympy2_extended==1.0.6"
    )


def sympy_expr_eq(gold: Any, pred: Any, precision: int, strict: bool = True) -> bool:
    """Return whether two values are equal."""
    return compare_gold_target([gold], [pred], precision, strict)


class _TimedOut(BaseException):
    """Not an ``Exception``, because sympy handles these."""


def _attempt(
    timeout_s: int, function: Callable[..., Any], *args: Any, **more: Any
) -> Any:
    """Return the result of a function; ``None`` if it fails or takes too long."""
    try:
        with _limit(timeout_s):
            return function(*args, **more)
    except (Exception, _TimedOut):  # noqa: BLE001 - sympy raises any
        return None


@contextmanager
def _limit(timeout_s: int) -> Iterator[None]:
    """Raise ``_TimedOut`` after a time; without effect outside of the main thread,
    where signals do not work."""
    if not _in_main_thread() or not hasattr(signal, "SIGALRM"):
        yield
        return

    def interrupt(*_: Any) -> None:
        raise _TimedOut

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.alarm(timeout_s)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
