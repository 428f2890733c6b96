"""Extractiveness of summaries: coverage, density and compression (Newsroom, Grusky et
al. 2018, arXiv 1804.11283)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from pytest_evals.core.doc import Doc
from pytest_evals.errors import DocumentError
from pytest_evals.guests.lighteval.metrics.text.languages import tokenizer_of
from pytest_evals.guests.lighteval.metrics.text.normalizers import (
    Normalizer,
    remove_braces,
    remove_braces_and_strip,
    resolve_normalizer,
)
from pytest_evals.scorers.custom_metrics.metric import Libraries, SampleLevelComputation
from pytest_evals.scorers.custom_metrics.response import ModelResponse

__all__ = ["Extractiveness", "SourceMetric", "fragment_lengths"]


@dataclass(frozen=True)
class SourceMetric(SampleLevelComputation):
    """Base class of metrics of a summary and its source.

    Args:
        normalize_pred: Normalizer of the answer.
        input_column: Key of the source text in ``doc.specific``.
    """

    normalize_input: Normalizer | str = remove_braces
    normalize_pred: Normalizer | str = remove_braces_and_strip
    input_column: str = "text"
    _source: Normalizer | None = field(init=False, repr=False, compare=False)
    _pred: Normalizer | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Resolve names."""
        object.__setattr__(self, "_source", resolve_normalizer(self.normalize_input))
        object.__setattr__(self, "_pred", resolve_normalizer(self.normalize_pred))

    def texts(self, doc: Doc, response: ModelResponse) -> tuple[str, str]:
        """Return the source and the first answer, normalized.

        Raises:
            DocumentError: Source or answer is missing.
        """
        source = (doc.specific or {}).get(self.input_column)
        if not isinstance(source, str):
            raise DocumentError(
                f"column {self.input_column!r} (or doc.specific) must contain the "
                "source text\n  fix: set input_column to its column"
            )
        if not response.final_text:
            raise DocumentError("the response has no answer")
        answer = response.final_text[0]
        return (
            self._source(source) if self._source else source,
            self._pred(answer) if self._pred else answer,
        )


@dataclass(frozen=True)
class Extractiveness(SourceMetric):
    """Extractiveness of the first answer.

    Args:
        language: Code of a spaCy tokenizer, such as en, de, fr or it.
    """

    language: str = "en"

    libraries: ClassVar[Libraries] = (("spacy", "spacy", "languages"),)

    def measure(self, doc: Doc, model_response: ModelResponse) -> dict[str, float]:
        """Compute the three numbers by name; all 0 for an empty answer.

        Raises:
            DocumentError: Source or answer is missing.
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
    """Return the lengths of copied fragments, matched greedily from the start."""
    lengths = []
    at = 0
    while at < len(summary):
        length = _longest(text, summary, at)
        if length:
            lengths.append(length)
        at += max(length, 1)
    return lengths


def _longest(text: Sequence[str], summary: Sequence[str], at: int) -> int:
    """Return the length of the longest fragment that starts at a position of the
    summary. As in the paper, the search continues after each match."""
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
