"""Extractive match: extract letters, numbers and formulas, and compare them with the
reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pytest_evals.core.doc import Doc
from pytest_evals.errors import EvalsError
from pytest_evals.scorers.lighteval.extraction.letters import (
    IndicesExtractionConfig,
    find_labels,
    labels_of,
)
from pytest_evals.scorers.lighteval.extraction.math import (
    ExprExtractionConfig,
    LatexExtractionConfig,
    equal,
    extract_values,
)
from pytest_evals.scorers.lighteval.metric import Libraries, SampleLevelComputation
from pytest_evals.scorers.lighteval.reductions import (
    Reduction,
    reduce_values,
    reduction,
    references,
)
from pytest_evals.scorers.lighteval.response import ModelResponse
from pytest_evals.scorers.lighteval.text.languages import code_of

__all__ = ["MultilingualExtractiveMatchMetric", "Target"]

Target = ExprExtractionConfig | LatexExtractionConfig | IndicesExtractionConfig
"""Type of value to extract."""

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
        language: ISO 639-3 code, for the word for "answer" and the letters of choices.
            Formulas are extracted by English context only.
        gold_extraction_target: Values to extract from references: objects, or their
            names expr, latex, letters and numbers.
        pred_extraction_target: Values to extract from answers.
        aggregation_function: Reduction over several answers.
        fallback_mode: ``first_match`` also keeps the first match as a string.
        extraction_mode: ``first_match`` ignores later matches.
        precision: Decimal places for rounding.
        timeout_seconds: Time limit for parsing an answer.
    """

    language: Any = "eng"
    gold_extraction_target: Any = (ExprExtractionConfig(),)
    pred_extraction_target: Any = (ExprExtractionConfig(), LatexExtractionConfig())
    aggregation_function: Reduction | str = max
    fallback_mode: Literal["no_fallback", "first_match"] = "first_match"
    extraction_mode: Literal["first_match", "any_match"] = "any_match"
    precision: int = 6
    timeout_seconds: int = 5
    _gold: tuple[Target, ...] = field(init=False, repr=False, compare=False)
    _pred: tuple[Target, ...] = field(init=False, repr=False, compare=False)
    _reduce: Reduction = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Resolve names."""
        if self.fallback_mode not in ("no_fallback", "first_match"):
            raise EvalsError(f"unknown fallback_mode {self.fallback_mode!r}")
        if self.extraction_mode not in ("first_match", "any_match"):
            raise EvalsError(f"unknown extraction_mode {self.extraction_mode!r}")
        object.__setattr__(self, "_gold", _targets(self.gold_extraction_target))
        object.__setattr__(self, "_pred", _targets(self.pred_extraction_target))
        object.__setattr__(self, "_reduce", reduction(self.aggregation_function))
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
        """Return 0 or 1.

        Raises:
            DocumentError: The answer or the references are missing.
            MissingExtraError: math-verify is not installed.
        """
        golds, preds = references(doc), model_response.final_text
        n = len(doc.choices)
        expected = [self._extract(gold, self._gold, n) for gold in golds]
        if not all(expected):
            expected = [[gold] for gold in golds]
        answers = [self._extract(pred, self._pred, n) for pred in preds]
        values = [
            float(any(self._equal(gold, answer) for gold in expected))
            for answer in answers
        ]
        return float(reduce_values(self._reduce, values, "answers"))

    def _extract(
        self, text: str, targets: Sequence[Target], n_choices: int
    ) -> list[Any]:
        """Extract all values from a text."""
        for target in targets:
            if isinstance(target, IndicesExtractionConfig):
                code = code_of(self.language)
                labels = find_labels(text, target, n_choices, code)
                if labels:
                    return labels[:1]
        formulas = [t for t in targets if not isinstance(t, IndicesExtractionConfig)]
        if not formulas:
            return []
        return extract_values(
            text,
            formulas,
            self.fallback_mode,
            self.extraction_mode,
            self.timeout_seconds,
        )

    def _equal(self, gold: list[Any], answer: list[Any]) -> bool:
        if not answer:
            return False
        texts = [x.strip() for x in gold if isinstance(x, str) and x.strip()]
        if any(isinstance(x, str) and x.strip() in texts for x in answer):
            return True
        if all(isinstance(x, str) for x in (*gold, *answer)):
            return False
        return equal(gold, answer, self.precision, self.timeout_seconds)
