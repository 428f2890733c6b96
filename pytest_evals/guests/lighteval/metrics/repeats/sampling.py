"""Base class of metrics of several answers per prompt.

Names and arguments are lighteval's (0.13.0). Unlike there, all of them remove reasoning
and normalize in the same way, and request as many answers as they need.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from pytest_evals.core.doc import Doc
from pytest_evals.errors import DocumentError, EvalsError
from pytest_evals.guests.lighteval.metrics.reductions import references
from pytest_evals.guests.lighteval.metrics.similarity.matches import match_type, matches
from pytest_evals.guests.lighteval.metrics.text.normalizers import (
    Normalizer,
    resolve_normalizer,
)
from pytest_evals.scorers.custom_metrics.metric import (
    Libraries,
    SampleLevelComputation,
    call_computation,
)
from pytest_evals.scorers.custom_metrics.response import ModelResponse

__all__ = ["SamplingMetric", "check_count", "required_count", "single_reference"]


@dataclass(frozen=True, kw_only=True)
class SamplingMetric(SampleLevelComputation):
    """Base class of metrics of several answers.

    Args:
        normalize: Normalizer of references and answers, or its name.
        strip_strings: Strip whitespace first.
        sample_scoring_function: Scores one answer: ``full``, ``prefix`` or ``suffix``
            match of the reference, an object with ``compute``, or a function of
            document and response.
        published: Reproduce lighteval: missing answers are wrong, and averages use the
            unmodified texts.
    """

    normalize: Normalizer | str | None = None
    strip_strings: bool = False
    sample_scoring_function: Any = None
    published: bool = False
    _normalize: Normalizer | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Resolve names."""
        object.__setattr__(self, "_normalize", resolve_normalizer(self.normalize))
        if isinstance(self.sample_scoring_function, str):
            match_type(self.sample_scoring_function)

    @property
    def libraries(self) -> Libraries:
        """Return the libraries of the scoring function."""
        needed: Libraries = getattr(self.sample_scoring_function, "libraries", ())
        return needed

    def preprocess(self, text: str) -> str:
        """Normalize a text."""
        if not text:
            return ""
        if self.strip_strings:
            text = text.strip()
        return self._normalize(text) if self._normalize else text

    def score(self, doc: Doc, pred: str) -> float:
        """Score one answer; answer and choices are already normalized."""
        how = self.sample_scoring_function or "full"
        if isinstance(how, str):
            return float(matches(references(doc)[0], pred, how))
        return float(call_computation(how, doc, ModelResponse(text=[pred])))

    def scores(
        self, doc: Doc, model_response: ModelResponse, n: int | None
    ) -> list[float]:
        """Score the first ``n`` answers, or all."""
        prepared = replace(doc, choices=[self.preprocess(one) for one in doc.choices])
        return [
            self.score(prepared, pred) for pred in self.first_answers(model_response, n)
        ]

    def first_answers(self, model_response: ModelResponse, n: int | None) -> list[str]:
        """Return the first ``n`` answers, normalized."""
        answers = model_response.final_text
        self.check_number(len(answers), n)
        return [self.preprocess(answer) for answer in answers[:n]]

    def check_number(self, given: int, n: int | None) -> None:
        """Check the number of answers."""
        if not given or (n is not None and given < n and not self.published):
            needed = n or 1
            raise DocumentError(
                f"expected at least {needed} answers, got {given}\n"
                f"  fix: repeats: {needed}"
            )


def single_reference(doc: Doc, metric: str) -> str:
    """Return the only reference."""
    golds = references(doc)
    if len(golds) != 1:
        raise DocumentError(f"{metric} is not defined for {len(golds)} references")
    return golds[0]


def check_count(name: str, value: Any, *, needed: bool = False) -> None:
    """Check that a number is a positive integer, or ``None`` unless it is required.

    Raises:
        EvalsError: It is not.
    """
    if value is None and not needed:
        return
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise EvalsError(f"{name} must be a positive integer, not {value!r}")


def required_count(name: str, value: int | None, metric: str) -> int:
    """Return a number of answers.

    Raises:
        DocumentError: The number is not set.
    """
    if value is None:
        raise DocumentError(f"{metric} needs {name}, the number of answers")
    return value
