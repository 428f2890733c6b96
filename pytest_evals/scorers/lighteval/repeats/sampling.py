"""What metrics of several answers to one prompt share.

Names and arguments are lighteval's (0.13.0); unlike there, all of them take out
reasoning and normalise in the same way, and ask for as many answers as they need.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from pytest_evals.core.doc import Doc
from pytest_evals.errors import DocumentError, EvalsError
from pytest_evals.scorers.lighteval.metric import (
    Libraries,
    SampleLevelComputation,
    call_computation,
)
from pytest_evals.scorers.lighteval.references import references
from pytest_evals.scorers.lighteval.response import ModelResponse
from pytest_evals.scorers.lighteval.similarity.matches import match_type, matches
from pytest_evals.scorers.lighteval.text.normalizers import (
    Normalizer,
    resolve_normalizer,
)

__all__ = ["SamplingMetric", "check_count", "required_count", "single_reference"]


@dataclass(frozen=True, kw_only=True)
class SamplingMetric(SampleLevelComputation):
    """What all of them share.

    Args:
        normalize: What references and answers go through, a function or its name.
        strip_strings: Whether white space at the ends is cut off first.
        sample_scoring_function: How one answer is scored: ``full``, ``prefix`` or
            ``suffix`` match of the reference, an object with ``compute``, or a function
            of document and response.
        published: Whether, as in lighteval, answers that are missing count as wrong
            ones, and an average is that of the texts as they came.
    """

    normalize: Normalizer | str | None = None
    strip_strings: bool = False
    sample_scoring_function: Any = None
    published: bool = False
    _normalize: Normalizer | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Look up what is given by name.

        Raises:
            EvalsError: There is nothing of that name.
        """
        object.__setattr__(self, "_normalize", resolve_normalizer(self.normalize))
        if isinstance(self.sample_scoring_function, str):
            match_type(self.sample_scoring_function)

    @property
    def libraries(self) -> Libraries:
        """Libraries that scoring an answer needs."""
        needed: Libraries = getattr(self.sample_scoring_function, "libraries", ())
        return needed

    def preprocess(self, text: str) -> str:
        """The text as it is compared."""
        if not text:
            return ""
        if self.strip_strings:
            text = text.strip()
        return self._normalize(text) if self._normalize else text

    def score(self, doc: Doc, pred: str) -> float:
        """The score of one answer, already preprocessed, and so are the choices."""
        how = self.sample_scoring_function or "full"
        if isinstance(how, str):
            return float(matches(references(doc)[0], pred, how))
        return float(call_computation(how, doc, ModelResponse(text=[pred])))

    def scores(
        self, doc: Doc, model_response: ModelResponse, n: int | None
    ) -> list[float]:
        """The scores of the first ``n`` answers, of all with ``None``.

        Raises:
            DocumentError: There are fewer.
        """
        prepared = replace(doc, choices=[self.preprocess(one) for one in doc.choices])
        return [
            self.score(prepared, pred) for pred in self.first_answers(model_response, n)
        ]

    def first_answers(self, model_response: ModelResponse, n: int | None) -> list[str]:
        """The first ``n`` answers, preprocessed.

        Raises:
            DocumentError: There are fewer, or none at all.
        """
        answers = model_response.final_text
        self.check_number(len(answers), n)
        return [self.preprocess(answer) for answer in answers[:n]]

    def check_number(self, given: int, n: int | None) -> None:
        """Check the number of answers.

        Raises:
            DocumentError: There are fewer, or none at all.
        """
        if not given or (n is not None and given < n and not self.published):
            wanted = f"{n} answers are" if n else "an answer is"
            raise DocumentError(
                f"{wanted} wanted and there are {given}; set repeats to as many"
            )


def single_reference(doc: Doc, metric: str) -> str:
    """The only reference.

    Raises:
        DocumentError: There are none, or several.
    """
    golds = references(doc)
    if len(golds) != 1:
        raise DocumentError(f"{metric} is not defined for {len(golds)} references")
    return golds[0]


def check_count(name: str, value: Any, *, needed: bool = False) -> None:
    """Make sure that a number of answers is one; ``None`` too unless it is needed.

    Raises:
        EvalsError: It is something else.
    """
    if value is None and not needed:
        return
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise EvalsError(f"{name} is a whole number from 1, not {value!r}")


def required_count(name: str, value: int | None, metric: str) -> int:
    """A number of answers.

    Raises:
        DocumentError: The number is not set.
    """
    if value is None:
        raise DocumentError(f"{metric} needs {name}, the number of answers")
    return value
