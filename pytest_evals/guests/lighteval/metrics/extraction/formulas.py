"""Numbers, expressions and LaTeX in answers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pytest_evals.guests.lighteval.metrics.extraction.anchors import (
    NEAR,
    Pattern,
    after_answer,
    closing_marks,
    patterns,
)
from pytest_evals.guests.lighteval.metrics.text.literals import literals_of

__all__ = [
    "ENVIRONMENT",
    "ExprExtractionConfig",
    "LatexExtractionConfig",
    "formula_patterns",
]


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
    return patterns(listed)


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
    return patterns(listed, re.DOTALL)
