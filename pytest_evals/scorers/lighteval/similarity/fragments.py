"""How much of a summary is copied from its source: coverage, density and compression of
the Newsroom data set (Grusky et al. 2018, arXiv 1804.11283)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from pytest_evals.core.doc import Doc
from pytest_evals.errors import DocumentError
from pytest_evals.scorers.lighteval.metric import Libraries, SampleLevelComputation
from pytest_evals.scorers.lighteval.response import ModelResponse
from pytest_evals.scorers.lighteval.text.languages import tokenizer_of
from pytest_evals.scorers.lighteval.text.normalizers import (
    Normalizer,
    remove_braces,
    remove_braces_and_strip,
    resolve_normalizer,
)

__all__ = ["Extractiveness", "SourceMetric", "fragment_lengths"]


@dataclass(frozen=True)
class SourceMetric(SampleLevelComputation):
    """What metrics of a summary and its source share.

    Args:
        normalize_input: What the source goes through.
        normalize_pred: What the answer goes through.
        input_column: Key of the source text in ``doc.specific``.
    """

    normalize_input: Normalizer | str = remove_braces
    normalize_pred: Normalizer | str = remove_braces_and_strip
    input_column: str = "text"
    _source: Normalizer | None = field(init=False, repr=False, compare=False)
    _pred: Normalizer | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Look up what is given by name."""
        object.__setattr__(self, "_source", resolve_normalizer(self.normalize_input))
        object.__setattr__(self, "_pred", resolve_normalizer(self.normalize_pred))

    def texts(self, doc: Doc, response: ModelResponse) -> tuple[str, str]:
        """The source and the first answer, normalised.

        Raises:
            DocumentError: One of them is not there.
        """
        source = (doc.specific or {}).get(self.input_column)
        if not isinstance(source, str):
            raise DocumentError(
                f"the source text is wanted in a column {self.input_column!r}, or in "
                "doc.specific; input_column names another one"
            )
        if not response.final_text:
            raise DocumentError("there is no answer")
        answer = response.final_text[0]
        return (
            self._source(source) if self._source else source,
            self._pred(answer) if self._pred else answer,
        )


@dataclass(frozen=True)
class Extractiveness(SourceMetric):
    """How much of the first answer is copied.

    Args:
        language: Whose words are meant: en, de, fr, it or another code of spaCy.
    """

    language: str = "en"

    libraries: ClassVar[Libraries] = (("spacy", "spacy", "languages"),)

    def measure(self, doc: Doc, model_response: ModelResponse) -> dict[str, float]:
        """The three numbers by name; all 0 for an empty answer.

        Raises:
            DocumentError: There is no source or no answer.
            MissingExtraError: spaCy is not installed.
        """
        source, answer = self.texts(doc, model_response)
        tokens = tokenizer_of(self.language)
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
    continues after each match, like the paper's."""
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
