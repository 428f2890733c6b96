"""Whether the value extracted from an answer equals that of a reference: search for the
patterns of :mod:`.extraction`, parsing of what they find, and comparison.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import version
from inspect import signature
from itertools import groupby
from typing import Any, ClassVar, Literal

from pytest_evals.core.doc import Doc
from pytest_evals.core.threads import OvertimeError, time_limit
from pytest_evals.errors import EvalsError
from pytest_evals.guests.lighteval.metrics.extraction import (
    ENVIRONMENT,
    ExprExtractionConfig,
    IndicesExtractionConfig,
    LatexExtractionConfig,
    Pattern,
    formula_patterns,
    label_patterns,
    labels_of,
)
from pytest_evals.guests.lighteval.metrics.normalizers import code_of, library
from pytest_evals.guests.lighteval.metrics.reductions import (
    Reduction,
    reduce_answers,
    reduction,
    references,
)
from pytest_evals.scorers.custom_metrics.metric import Libraries, SampleLevelComputation
from pytest_evals.scorers.custom_metrics.response import ModelResponse

Found = tuple[Any, str]
"""A value, ``None`` if it cannot be parsed, and its source."""


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
    return bool(verify(gold, target, precision, strict=strict, timeout_seconds=limit))


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
        message = "several \\boxed{} in a text"
    elif any(_ASSIGNMENTS.search(one) for one in (gold, answer)):
        message = "assignments with text between them"
    elif _PERCENT.search(both):
        message = "percent signs and factorials in formulas"
    elif any(_IRRATIONAL.search(a) and _DECIMAL.search(b) for a, b in pairs):
        message = "an irrational and a decimal number"
    else:
        return None
    return (
        f"math-verify {version('math-verify')} may compare {message} differently from "
        "lighteval 0.13.0; for its verdicts: pip install math-verify==0.5.2 "
        "latex2sympy2_extended==1.0.6"
    )


def sympy_expr_eq(gold: Any, pred: Any, precision: int, strict: bool = True) -> bool:
    """Return whether two values are equal."""
    return compare_gold_target([gold], [pred], precision, strict)


def _attempt(
    timeout_s: int, function: Callable[..., Any], *args: Any, **more: Any
) -> Any:
    """Return the result of a function; ``None`` if it fails or takes too long. There is
    no time limit outside of the main thread."""
    try:
        with time_limit(timeout_s if _in_main_thread() else 0):
            return function(*args, **more)
    except (Exception, OvertimeError):  # noqa: BLE001 - sympy raises any
        return None


Target = ExprExtractionConfig | LatexExtractionConfig | IndicesExtractionConfig
"""Type of value to extract."""
_ORDER = (IndicesExtractionConfig, LatexExtractionConfig, ExprExtractionConfig)
"""Order of matches with the same priority and position."""
Fallback = Literal["no_fallback", "first_match"]
Mode = Literal["first_match", "any_match"]


def get_extraction_regexes(
    formatted_doc: Doc, target_types: Sequence[Target], language: Any
) -> list[Pattern]:
    """Return the patterns of values, sorted by priority."""
    code, n_choices = code_of(language), len(formatted_doc.choices)
    listed = [
        pattern
        for target in sorted(target_types, key=lambda one: _ORDER.index(type(one)))
        for pattern in (
            label_patterns(target, n_choices, code)
            if isinstance(target, IndicesExtractionConfig)
            else formula_patterns(target, code)
        )
    ]
    return sorted(listed, key=lambda one: one.priority)


def extract_target_from_pred(
    pred: str,
    target_res: Sequence[Pattern],
    fallback_mode: Fallback = "no_fallback",
    extraction_mode: Mode = "any_match",
    timeout_seconds: int = 5,
) -> list[Any]:
    """Return the extracted value and its source; empty without a match.

    Args:
        target_res: From :func:`get_extraction_regexes`.
        fallback_mode: ``first_match`` keeps the first match as a string.
        extraction_mode: ``any_match`` tries the matches after one that cannot be
            parsed.
        timeout_seconds: Time limit for parsing one value; ignored outside of the main
            thread.
    """
    sources: list[str] = []
    values: list[Any] = []
    for _, patterns in groupby(target_res, key=lambda one: one.priority):
        matches = [
            (-end, start, groups, pattern.target)
            for pattern in patterns
            for start, end, groups in pattern.regex.matches(pred)
        ]
        # Of several, the one that ends last comes first.
        for *_, groups, target in sorted(matches, key=lambda one: one[:2]):
            value, source = _value(groups, target, timeout_seconds)
            sources += [source] if source else []
            values += [] if value is None else [value]
            if values or extraction_mode == "first_match":
                break
        if values or (matches and extraction_mode == "first_match"):
            break
    return values + (sources[:1] if fallback_mode == "first_match" else [])


def _value(groups: Sequence[str | None], target: Target, timeout_s: int) -> Found:
    if isinstance(target, IndicesExtractionConfig):
        label = (groups[0] or "").strip("()")
        return label, label
    if isinstance(target, LatexExtractionConfig):
        return latex_value(groups, target, timeout_s)
    return number_value(groups, timeout_s)


_NAMES: dict[str, Target] = {
    "expr": ExprExtractionConfig(),
    "latex": LatexExtractionConfig(),
    "letters": IndicesExtractionConfig("NativeLetters"),
    "numbers": IndicesExtractionConfig("Numbers"),
}


def _targets(given: Any) -> tuple[Target, ...]:
    listed = given if isinstance(given, list | tuple) else (given,)
    found = []
    for one in listed:
        target = _NAMES.get(one) if isinstance(one, str) else one
        if not isinstance(target, Target):
            known = ", ".join(_NAMES)
            raise EvalsError(
                f"an extraction target must be one of {known}, not {one!r}"
            )
        found.append(target)
    return tuple(found)


@dataclass(frozen=True)
class MultilingualExtractiveMatchMetric(SampleLevelComputation):
    """1 if the value extracted from an answer equals that of a reference.

    Args:
        language: ISO 639-3 code, for the words for "answer", "and" and "or", for
            punctuation and for the letters of choices.
        gold_extraction_target: Values to extract from references: objects, or their
            names expr, latex, letters and numbers.
        pred_extraction_target: Values to extract from answers.
        aggregation_function: Reduction over several answers.
        fallback_mode: ``first_match`` also keeps the first match as a string.
        extraction_mode: ``first_match`` ignores later matches.
        precision: Decimal places for rounding.
    """

    is_share: ClassVar[bool] = True
    language: Any = "eng"
    gold_extraction_target: Any = (ExprExtractionConfig(),)
    pred_extraction_target: Any = (ExprExtractionConfig(), LatexExtractionConfig())
    aggregation_function: Reduction | str = max
    fallback_mode: Fallback = "first_match"
    extraction_mode: Mode = "any_match"
    precision: int = 6
    timeout_seconds: int = 5
    _gold: tuple[Target, ...] = field(init=False, repr=False, compare=False)
    _pred: tuple[Target, ...] = field(init=False, repr=False, compare=False)
    warnings: dict[str, None] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )
    """Warnings about the documents that were scored so far."""

    def __post_init__(self) -> None:
        """Resolve names."""
        if self.fallback_mode not in ("no_fallback", "first_match"):
            raise EvalsError(f"unknown fallback_mode {self.fallback_mode!r}")
        if self.extraction_mode not in ("first_match", "any_match"):
            raise EvalsError(f"unknown extraction_mode {self.extraction_mode!r}")
        object.__setattr__(self, "_gold", _targets(self.gold_extraction_target))
        object.__setattr__(self, "_pred", _targets(self.pred_extraction_target))
        reduction(self.aggregation_function)
        for target in (*self._gold, *self._pred):
            if isinstance(target, IndicesExtractionConfig):
                labels_of(target.prefix_for_extraction, code_of(self.language))

    @property
    def libraries(self) -> Libraries:
        """Return math-verify, unless only labels of choices are extracted."""
        targets = (*self._gold, *self._pred)
        if all(isinstance(target, IndicesExtractionConfig) for target in targets):
            return ()
        return (("math_verify", "math-verify", "metrics"),)

    def measure(self, doc: Doc, model_response: ModelResponse) -> float:
        """Return 0 or 1."""
        golds, preds = references(doc), model_response.final_text
        if self.libraries:
            library("math_verify", "extractive match", "math-verify")
            found = (difference(gold, pred) for gold in golds for pred in preds)
            self.warnings.update((text, None) for text in found if text)
        expected = self._extracted(doc, golds, self._gold)
        if not all(expected):
            expected = [[gold] for gold in golds]
        answers = self._extracted(doc, preds, self._pred)
        values = [float(any(self._equal(g, a) for g in expected)) for a in answers]
        return float(reduce_answers(reduction(self.aggregation_function), values))

    def _extracted(
        self, doc: Doc, texts: Sequence[str], targets: Sequence[Target]
    ) -> list[list[Any]]:
        how = get_extraction_regexes(doc, targets, self.language)
        modes = self.fallback_mode, self.extraction_mode
        return [
            extract_target_from_pred(text, how, *modes, self.timeout_seconds)
            for text in texts
        ]

    def _equal(self, gold: list[Any], answer: list[Any]) -> bool:
        if not answer:
            return False
        texts = [x.strip() for x in gold if isinstance(x, str) and x.strip()]
        if any(isinstance(x, str) and x.strip() in texts for x in answer):
            return True
        if all(isinstance(x, str) for x in (*gold, *answer)):
            return False
        return compare_gold_target(
            gold, answer, self.precision, timeout_seconds=self.timeout_seconds
        )


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
