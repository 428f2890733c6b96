"""Extractive match: extract letters, numbers and formulas, and compare them with the
reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from pytest_evals.core.doc import Doc
from pytest_evals.errors import EvalsError
from pytest_evals.guests.lighteval.metrics.extraction.formulas import (
    ExprExtractionConfig,
    LatexExtractionConfig,
)
from pytest_evals.guests.lighteval.metrics.extraction.letters import (
    IndicesExtractionConfig,
    labels_of,
)
from pytest_evals.guests.lighteval.metrics.extraction.search import (
    Fallback,
    Mode,
    Target,
    extract_target_from_pred,
    get_extraction_regexes,
)
from pytest_evals.guests.lighteval.metrics.extraction.values import (
    compare_gold_target,
    difference,
    require_library,
)
from pytest_evals.guests.lighteval.metrics.reductions import (
    Reduction,
    reduce_values,
    reduction,
    references,
)
from pytest_evals.guests.lighteval.metrics.text.languages import code_of
from pytest_evals.scorers.custom_metrics.metric import Libraries, SampleLevelComputation
from pytest_evals.scorers.custom_metrics.response import ModelResponse

__all__ = ["MultilingualExtractiveMatchMetric"]

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
        timeout_seconds: Time limit for parsing an answer.
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
    _reduce: Reduction = field(init=False, repr=False, compare=False)
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
        if self.libraries:
            require_library()
            found = (difference(gold, pred) for gold in golds for pred in preds)
            self.warnings.update((text, None) for text in found if text)
        expected = self._extracted(doc, golds, self._gold)
        if not all(expected):
            expected = [[gold] for gold in golds]
        answers = self._extracted(doc, preds, self._pred)
        values = [
            float(any(self._equal(gold, answer) for gold in expected))
            for answer in answers
        ]
        return float(reduce_values(self._reduce, values, "answers"))

    def _extracted(
        self, doc: Doc, texts: Sequence[str], targets: Sequence[Target]
    ) -> list[list[Any]]:
        """Extract the values of each text."""
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
