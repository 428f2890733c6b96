"""Patterns that find the answer in a text: letters of choices, numbers and LaTeX, and
the words in front of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from pytest_evals.errors import EvalsError
from pytest_evals.guests.lighteval.metrics.literals import Literals, literals_of
from pytest_evals.limits.patterns import BoundedPattern, compiled

NEAR = ".{0,50}?"
"""Text between the word for "answer" and the answer."""


class Pattern(NamedTuple):
    """A pattern of a value to extract, and its priority."""

    priority: int
    regex: BoundedPattern
    target: Any


def patterns(
    given: Iterable[tuple[int, str]], target: Any, flags: int = 0
) -> tuple[Pattern, ...]:
    """Compile the patterns of a target, given with their priorities."""
    return tuple(Pattern(i, compiled(text, flags), target) for i, text in given)


def after_answer(
    language: str, final: tuple[str, str], value: str, late: int
) -> list[tuple[int, str]]:
    """Return the patterns of a value after the word for "answer", if it is known.

    Args:
        final: Pattern of a value after "final answer is", and after "final answer …
            is"; these are used in English only.
        value: Pattern of the text after the word, with the value.
        late: Priority if no colon follows the word.
    """
    words, listed = literals_of(language), []
    if language == "eng":
        listed += [
            (0, rf"(?i:final answer is):?\s*{final[0]}\.?\s?I hope"),
            (50, rf"(?i:final answer.{{0,100}}?)\s+is:?{final[1]}"),
        ]
    if words.answer:
        word = f"(?i:{re.escape(words.answer)})"
        listed += [(100, rf"{word}\s?{_colon(words)}{value}"), (late, word + value)]
    return listed


def closing_marks(words: Literals) -> str:
    """Return the pattern of a mark after a value, the language's own or the ASCII one,
    without parentheses around its alternatives."""
    stops = re.escape(words.full_stop + words.comma)
    return rf"[{stops}.,]|\s?{_colon(words)}"


def _colon(words: Literals) -> str:
    return f"[{re.escape(words.colon)}:]"


@dataclass(frozen=True, slots=True)
class IndicesExtractionConfig:
    """The labels of choices.

    Args:
        prefix_for_extraction: ``Letters`` (A to Z), ``NativeLetters`` (those of the
            language) or ``Numbers``.
        try_extract_without_anchor: Also match labels without a phrase such as
            "Answer:".
    """

    prefix_for_extraction: str
    try_extract_without_anchor: bool = False


def labels_of(prefix: str, language: str) -> tuple[str, ...]:
    """Return the labels of choices, in order.

    Raises:
        EvalsError: The prefix is unknown.
    """
    if prefix == "Letters":
        return tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
    if prefix == "NativeLetters":
        return literals_of(language).indices
    if prefix == "Numbers":
        return tuple(str(number) for number in range(1, 27))
    raise EvalsError(
        "prefix_for_extraction must be Letters, NativeLetters or Numbers, not "
        f"{prefix!r}"
    )


@lru_cache(maxsize=64)
def label_patterns(
    config: IndicesExtractionConfig, n_choices: int, language: str
) -> tuple[Pattern, ...]:
    """Return the patterns of the labels of ``n_choices`` choices; the only group is the
    label, possibly in parentheses."""
    words = literals_of(language)
    labels = labels_of(config.prefix_for_extraction, language)[:n_choices]
    forms = (re.escape(form) for x in labels for form in (f"({x})", x))
    label = f"({'|'.join(forms)})"
    space = re.escape(words.sentence_space)
    closed = rf"{label}(?:\*\*)?(?:{closing_marks(words)}|{space}|$)"
    announced = rf"(?:^|{space})(?:\*\*)?{closed}"
    listed = after_answer(
        language, (label, rf"\s*{label}"), f"{NEAR}{announced}", late=150
    )
    listed += [(200, rf"^(?:\*\*)?{closed}"), (210, rf"\n(?:\*\*)?{closed}")]
    if config.try_extract_without_anchor:
        listed += [(250, announced), (300, label)]
    return patterns(listed, config)


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
        normalization_config: A ``NormalizationConfig`` of latex2sympy2_extended; by
            default, all normalizations.
    """

    try_extract_without_anchor: bool = True
    boxed_match_priority: int = 55
    normalization_config: Any = None


_CURRENCIES = r"\$£¥฿\u20a1-\u20bf"
_NUMBER = r"-?\d{1,3}(?:[ ,]\d{3})+(?:\.\d+)?|-?\d+[.,]\d+|\.\d+|-?\d+"
_PERCENT = "%|[Pp]ercent|[Pp]ercentage|[Pp]ct"
_OPERATORS = r"+*\u00d7/^()\u00f7-"
_EXPRESSION = rf"-?\(?-?\d[\d.\s{_OPERATORS}]*[{_OPERATORS}][\d.\s{_OPERATORS}]+\)?"

# Before, a character of the content, after.
_DELIMITERS = (
    (r"(?<!\\)\$\$", r"(?:[^$]|\$(?!\$))", r"(?<!\\)\$\$"),
    (r"(?<!\\)\\\[", r"(?:[^\\]|\\(?!\]))", r"(?<!\\)\\\]"),
    (r"(?<![\\\d])\$", r"(?:\\\$|[^\n$])", r"(?<!\\)\$"),
    (r"(?<!\\)\\\(", r"(?:[^\\\n]|\\(?!\)))", r"(?<!\\)\\\)"),
    (r"\s\[", r"[^\n\]\[]", r"\]\s"),
)
_DIGITS = r"-?\d+(?:[.,]\d+)?"
_FRACTION = rf"-?\\frac{{{_DIGITS}}}{{{_DIGITS}}}"


def _environment(boxed: bool, opening: str = "(?:") -> str:
    """Return the pattern of LaTeX between delimiters, or of a plain fraction.

    Args:
        boxed: Only LaTeX with a ``\\boxed{}``.
        opening: How the groups of content and of a percent sign begin.
    """
    kinds = []
    for before, one, after in _DELIMITERS:
        content = rf"{one}*?\\boxed{{{one}+?}}{one}*?" if boxed else f"{one}+?"
        kinds.append(f"{before}{opening}{content}){after}")
    kinds += [] if boxed else [f"{opening}{_FRACTION})"]
    return rf"(?:{'|'.join(kinds)})\s*{opening}\\?%|{_PERCENT})?"


ENVIRONMENT = re.compile(_environment(False, "("), re.DOTALL)
"""One formula of a match; the last group is a percent sign."""


@lru_cache(maxsize=64)
def formula_patterns(
    config: ExprExtractionConfig | LatexExtractionConfig, language: str
) -> tuple[Pattern, ...]:
    """Return the patterns of numbers and expressions, whose groups are expression,
    number and percent sign; or of LaTeX, whose groups are formulas and a lone
    ``\\boxed{}``."""
    if isinstance(config, LatexExtractionConfig):
        return _latex(config, language)
    words = literals_of(language)
    before = rf"(?:^|[\s=]{'' if words.sentence_space else '?'})(?:\*\*)?"
    space = r"\s" if words.sentence_space else r"\s?"
    after = rf"(?:\*\*)?(?:{closing_marks(words)}|{space}|\)|\$|$)"
    expression = f"{before}({_EXPRESSION}){after}"
    number = rf"{before}[{_CURRENCIES}]?({_NUMBER})(\s*(?:{_PERCENT}))?"
    either = f"(?:{expression}|{number})"
    listed = after_answer(
        language,
        (either, either),
        rf"(?:.{{0,100}}=\s*|{NEAR}){either}(?!\s*=)",
        late=200,
    )
    if config.try_extract_without_anchor:
        listed += [(300, f"{expression}()()"), (300, f"(){number}")]
    return patterns(listed, config)


def _latex(config: LatexExtractionConfig, language: str) -> tuple[Pattern, ...]:
    words = literals_of(language)
    joint = "|".join(filter(None, (words.and_word, words.or_word, ",")))

    def joined(boxed: bool) -> str:
        one = _environment(boxed)
        return rf"({one}(?:\s*(?:{joint})\s*{one}){{0,5}})"

    formulas = joined(False)
    listed = after_answer(
        language, (formulas, rf"\s*{formulas}"), NEAR + formulas, late=200
    )
    if config.try_extract_without_anchor:
        listed.append((300, formulas))
    first = config.boxed_match_priority
    if first >= 0:
        # It is unclear where a lone box ends; normalization selects the last one.
        listed += [(first, joined(True)), (first, r"()(\\boxed{.+})")]
    return patterns(listed, config, re.DOTALL)
