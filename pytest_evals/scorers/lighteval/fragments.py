"""How much of a summary is copied from its source: coverage, density and compression of
the Newsroom data set (Grusky et al. 2018, arXiv 1804.11283)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from pytest_evals.core.doc import Doc
from pytest_evals.errors import DocumentError
from pytest_evals.scorers.lighteval.languages import tokenizer_of
from pytest_evals.scorers.lighteval.metric import Libraries, SampleLevelComputation
from pytest_evals.scorers.lighteval.normalizers import (
    Normalizer,
    remove_braces,
    remove_braces_and_strip,
    resolved,
)
from pytest_evals.scorers.lighteval.response import ModelResponse

__all__ = ["Extractiveness", "fragment_lengths", "source_text"]


def source_text(doc: Doc, column: str) -> str:
    """The text that a document summarises.

    Raises:
        DocumentError: It is not there.
    """
    text = (doc.specific or {}).get(column)
    if not isinstance(text, str):
        raise DocumentError(f"the source text is wanted in specific[{column!r}]")
    return text


@dataclass(frozen=True)
class Extractiveness(SampleLevelComputation):
    """How much of the first answer is copied.

    Args:
        normalize_input: What the source goes through.
        normalize_pred: What the answer goes through.
        input_column: Where the source stands in ``doc.specific``.
        language: Whose words are meant: en, de, fr, it or another code of spaCy.
    """

    libraries: ClassVar[Libraries] = (("spacy", "spacy", "languages"),)

    normalize_input: Normalizer | str = remove_braces
    normalize_pred: Normalizer | str = remove_braces_and_strip
    input_column: str = "text"
    language: str = "en"
    _source: Normalizer | None = field(init=False, repr=False, compare=False)
    _pred: Normalizer | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Look up what is given by name."""
        object.__setattr__(self, "_source", resolved(self.normalize_input))
        object.__setattr__(self, "_pred", resolved(self.normalize_pred))

    def compute(
        self, doc: Doc, model_response: ModelResponse, **more: Any
    ) -> dict[str, float]:
        """The three numbers by name; all 0 for an empty answer.

        Raises:
            DocumentError: There is no source or no answer.
            MissingExtraError: spaCy is not installed.
        """
        answers = model_response.final_text
        if not answers:
            raise DocumentError("there is no answer")
        source, answer = source_text(doc, self.input_column), answers[0]
        tokens = tokenizer_of(self.language)
        source = self._source(source) if self._source else source
        answer = self._pred(answer) if self._pred else answer
        text = [token.lower() for token in tokens(source)]
        summary = [token.lower() for token in tokens(answer)]
        n = len(summary)
        lengths = fragment_lengths(text, summary) if n else []
        return {
            "summarization_coverage": sum(lengths) / n if n else 0.0,
            "summarization_density": sum(i * i for i in lengths) / n if n else 0.0,
            "summarization_compression": len(text) / n if n else 0.0,
        }


def fragment_lengths(text: Sequence[str], summary: Sequence[str]) -> list[int]:
    """The lengths of the runs that a summary copies, found greedily from its start."""
    lengths = []
    at = 0
    while at < len(summary):
        length = _longest(text, summary, at)
        if length:
            lengths.append(length)
        at += max(length, 1)
    return lengths


def _longest(text: Sequence[str], summary: Sequence[str], at: int) -> int:
    """Length of the longest run that begins at a position of the summary; the search
    goes on behind each run that it finds, as the paper's does."""
    best = start = 0
    while start < len(text):
        length = 0
        while (
            start + length < len(text)
            and at + length < len(summary)
            and text[start + length] == summary[at + length]
        ):
            length += 1
        best = max(best, length)
        start += max(length, 1)
    return best
