"""What metrics of a whole corpus keep of one document: pairs, so that they travel
between processes and can be drawn again by a bootstrap."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from pytest_evals.core.doc import Doc
from pytest_evals.errors import DocumentError, EvalsError, did_you_mean
from pytest_evals.scorers.lighteval.likelihoods.choices import best_choice, gold_indices
from pytest_evals.scorers.lighteval.likelihoods.logprobs import document_logprobs
from pytest_evals.scorers.lighteval.metric import Preparator
from pytest_evals.scorers.lighteval.references import references
from pytest_evals.scorers.lighteval.response import ModelResponse

__all__ = [
    "GenerativePreparator",
    "LoglikelihoodPreparator",
    "NamedPair",
    "PerplexityPreparator",
    "PreparedPair",
    "TargetPerplexityPreparator",
    "WeightedLogprob",
    "count_units",
]


class PreparedPair(NamedTuple):
    """References and answers, or right choices and the chosen one."""

    golds: Any
    preds: Any


class NamedPair(PreparedPair):
    """Any of the pairs, by the names of both kinds: values lose their names when they
    are sent between processes."""

    __slots__ = ()

    @property
    def logprobs(self) -> Any:
        """The first part."""
        return self[0]

    @property
    def weights(self) -> Any:
        """The second part."""
        return self[1]


class WeightedLogprob(NamedTuple):
    """A log-probability in nats, and how many units of text it is about."""

    logprobs: float
    weights: int


_UNITS: Mapping[str, Callable[[str], int]] = {
    # White space at either end makes an empty word, which counts.
    "words": lambda text: len(re.split(r"\s+", text)),
    "bytes": lambda text: len(text.encode()),
}


def _unit(name: str) -> Callable[[str], int]:
    if name not in _UNITS:
        hint = did_you_mean(name, list(_UNITS)) or f"; known: {', '.join(_UNITS)}"
        raise EvalsError(f"no units_type called {name!r}{hint}")
    return _UNITS[name]


def count_units(text: str, units_type: str) -> int:
    """Words or bytes of a text.

    Raises:
        EvalsError: There is no such unit.
    """
    return _unit(units_type)(text)


@dataclass(frozen=True)
class GenerativePreparator(Preparator):
    """References and answers as they are."""

    def prepare(
        self, doc: Doc, model_response: ModelResponse, **more: Any
    ) -> PreparedPair:
        """Both as lists of texts."""
        return PreparedPair(references(doc), model_response.final_text)


@dataclass(frozen=True)
class LoglikelihoodPreparator(Preparator):
    """The right choices, and the most likely one.

    Args:
        is_single_token: Whether there is one right choice, which then is no list.
    """

    is_single_token: bool = False

    def prepare(
        self, doc: Doc, model_response: ModelResponse, **more: Any
    ) -> PreparedPair:
        """Positions of choices.

        Raises:
            DocumentError: There is no right choice, or nothing to choose from.
        """
        golds = gold_indices(doc)
        if not golds:
            raise DocumentError("there are no right choices")
        best = best_choice(document_logprobs(model_response))
        return PreparedPair(golds[0] if self.is_single_token else golds, best)


@dataclass(frozen=True)
class PerplexityPreparator(Preparator):
    """The log-probability of a text, and its length.

    Args:
        units_type: ``words`` or ``bytes``.
    """

    units_type: str

    def __post_init__(self) -> None:
        """Check the unit."""
        _unit(self.units_type)

    def prepare(
        self, doc: Doc, model_response: ModelResponse, **more: Any
    ) -> WeightedLogprob:
        """The length is that of ``original_query``, if there is one."""
        text = doc.query if doc.original_query is None else doc.original_query
        logprob = sum(document_logprobs(model_response))
        return WeightedLogprob(logprob, count_units(text, self.units_type))


@dataclass(frozen=True)
class TargetPerplexityPreparator(Preparator):
    """The log-probability of the right choices, and their length.

    Args:
        units_type: ``words`` or ``bytes``.
        published: Whether all choices are summed, as in lighteval, which is meant for
            documents with one choice.
    """

    units_type: str
    published: bool = False

    def __post_init__(self) -> None:
        """Check the unit."""
        _unit(self.units_type)

    def prepare(
        self, doc: Doc, model_response: ModelResponse, **more: Any
    ) -> WeightedLogprob:
        """The length is that of the right choices, joined by spaces."""
        text = " ".join(references(doc))
        logprobs = document_logprobs(model_response)
        if not self.published:
            logprobs = [logprobs[gold] for gold in gold_indices(doc)]
        return WeightedLogprob(sum(logprobs), count_units(text, self.units_type))
