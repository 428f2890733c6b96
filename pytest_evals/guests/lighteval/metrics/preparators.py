"""Preparators: the pair of values that a corpus metric stores per document."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from pytest_evals.core.doc import Doc
from pytest_evals.errors import DocumentError, EvalsError, unknown_name
from pytest_evals.guests.lighteval.metrics.choices import (
    best_choice,
    document_logprobs,
    gold_indices,
)
from pytest_evals.guests.lighteval.metrics.reductions import references
from pytest_evals.scorers.custom_metrics.aggregation import GenerativeCorpusMetricInput
from pytest_evals.scorers.custom_metrics.metric import Preparator
from pytest_evals.scorers.custom_metrics.response import ModelResponse


class CorpusMetricInput:
    """Base class of records that preparators of task modules return."""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name."""
        return dict(vars(self))


class LogprobCorpusMetricInput(NamedTuple):
    """The correct choices and the most likely one, as positions."""

    golds: Any
    preds: Any


class PerplexityCorpusMetricInput(NamedTuple):
    """A log-probability in nats, and its number of words or bytes."""

    logprobs: float
    weights: int


_UNITS: Mapping[str, Callable[[str], int]] = {
    # Whitespace at either end adds an empty word, as in lighteval.
    "words": lambda text: len(re.split(r"\s+", text)),
    "bytes": lambda text: len(text.encode()),
}


def count_units(text: str, units_type: str) -> int:
    """Count the words or bytes of a text.

    Raises:
        EvalsError: The unit is unknown.
    """
    if units_type not in _UNITS:
        raise EvalsError(unknown_name("units_type", units_type, list(_UNITS)))
    return _UNITS[units_type](text)


@dataclass(frozen=True)
class GenerativePreparator(Preparator):
    """Returns references and answers unchanged."""

    def prepare(
        self, doc: Doc, model_response: ModelResponse, **more: Any
    ) -> GenerativeCorpusMetricInput:
        """Return both as lists of strings."""
        return GenerativeCorpusMetricInput(references(doc), model_response.final_text)


@dataclass(frozen=True)
class LoglikelihoodPreparator(Preparator):
    """Returns the correct choices, or the first one for ``is_single_token``; and the
    most likely one."""

    is_single_token: bool = False

    def prepare(
        self, doc: Doc, model_response: ModelResponse, **more: Any
    ) -> LogprobCorpusMetricInput:
        """Return the positions of the choices."""
        golds = gold_indices(doc)
        if not golds:
            raise DocumentError("the document has no correct choice")
        best = best_choice(document_logprobs(model_response))
        expected = golds[0] if self.is_single_token else golds
        return LogprobCorpusMetricInput(expected, best)


@dataclass(frozen=True)
class PerplexityPreparator(Preparator):
    """Returns the log-probability of a text, and its length in words or bytes."""

    units_type: str

    def __post_init__(self) -> None:
        """Validate the unit."""
        count_units("", self.units_type)

    def prepare(
        self, doc: Doc, model_response: ModelResponse, **more: Any
    ) -> PerplexityCorpusMetricInput:
        """Return both; the length is that of ``original_query``, if set."""
        text = doc.query if doc.original_query is None else doc.original_query
        logprob = sum(document_logprobs(model_response))
        return PerplexityCorpusMetricInput(logprob, count_units(text, self.units_type))


@dataclass(frozen=True)
class TargetPerplexityPreparator(PerplexityPreparator):
    """Returns the log-probability of the correct choices, and their length.

    Args:
        published: Sum all choices, as lighteval does.
    """

    published: bool = False

    def prepare(
        self, doc: Doc, model_response: ModelResponse, **more: Any
    ) -> PerplexityCorpusMetricInput:
        """Return both; the length is that of the correct choices, joined by spaces."""
        text = " ".join(references(doc))
        logprobs = document_logprobs(model_response)
        if not self.published:
            logprobs = [logprobs[gold] for gold in gold_indices(doc)]
        length = count_units(text, self.units_type)
        return PerplexityCorpusMetricInput(sum(logprobs), length)
