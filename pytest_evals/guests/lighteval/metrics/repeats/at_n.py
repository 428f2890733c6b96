"""avg@n and maj@n: the mean score of ``n`` answers, and the majority vote."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import ClassVar

from pytest_evals.core.doc import Doc
from pytest_evals.errors import DocumentError
from pytest_evals.guests.lighteval.metrics.repeats.sampling import (
    SamplingMetric,
    check_count,
    required_count,
    single_reference,
)
from pytest_evals.scorers.custom_metrics.response import ModelResponse

__all__ = ["AvgAtN", "MajAtN"]


@dataclass(frozen=True)
class _MetricAtN(SamplingMetric):
    """A metric of ``n`` answers."""

    required: ClassVar[tuple[str, ...]] = ("n",)
    n: int | None = None

    def __post_init__(self) -> None:
        """Validate ``n``."""
        SamplingMetric.__post_init__(self)
        check_count("n", self.n)

    def num_samples(self) -> int | None:
        """Return the number of answers needed."""
        return self.n


@dataclass(frozen=True)
class AvgAtN(_MetricAtN):
    """The mean score of ``n`` answers."""

    def measure(self, doc: Doc, model_response: ModelResponse) -> float:
        """Compute the mean score."""
        n = required_count("n", self.n, "avg@n")
        if not self.published:
            scores = self.scores(doc, model_response, n)
        elif n > len(model_response.text):
            raise DocumentError(
                f"avg@{n} needs {n} answers, got {len(model_response.text)}"
            )
        else:
            scores = [self.score(doc, text) for text in model_response.text[:n]]
        return sum(scores) / len(scores)


@dataclass(frozen=True)
class MajAtN(_MetricAtN):
    """The score of the most frequent of ``n`` answers; ties go to the first."""

    def prepared_gold(self, text: str) -> str:
        """Normalize the reference."""
        return self.preprocess(text)

    def measure(self, doc: Doc, model_response: ModelResponse) -> float:
        """Compute the score of the majority.

        Raises:
            DocumentError: There are too few answers, or several references.
        """
        gold = self.prepared_gold(single_reference(doc, "maj@n"))
        answers = self.first_answers(
            model_response, required_count("n", self.n, "maj@n")
        )
        majority = Counter(answers).most_common(1)[0][0]
        return self.score(replace(doc, choices=[gold], gold_index=0), majority)
