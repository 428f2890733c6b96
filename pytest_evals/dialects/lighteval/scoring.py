"""From an answered document of a task module to its scores: each metric sees the
answers to the requests of its own kind, and those of a talk all together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pytest_evals.core.dialogue import Dialogue, ModelSource, replayed
from pytest_evals.core.metric import BOOTSTRAP_ITERS, Metric
from pytest_evals.core.record import Record, Score
from pytest_evals.core.request import Generate, Loglikelihood, Request, Response
from pytest_evals.dialects.lighteval.chat_turns import later_turns
from pytest_evals.errors import DocumentError
from pytest_evals.scorers.lighteval.judge_adapter import (
    JudgedMetric,
    judge_models,
    judged_together,
)
from pytest_evals.scorers.lighteval.metric import SamplingMethod
from pytest_evals.scorers.lighteval.response import ModelResponse
from pytest_evals.scorers.lighteval.task_metric import Computed
from pytest_evals.scorers.metric_value import score_of
from pytest_evals.scorers.user_aggregation import Decides

FILTER = "none"
"""There are no filters in this dialect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricScorer:
    """Scores the documents of one task.

    Args:
        metrics: What is measured; all names differ.
        bootstrap_iters: Resamples of bootstrapped standard errors, at most.
    """

    metrics: tuple[Computed, ...]
    bootstrap_iters: int = BOOTSTRAP_ITERS
    _accuracies: Mapping[str, Decides] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Look up once which numbers tell right from wrong."""
        found: dict[str, Decides] = {}
        for metric in self.metrics:
            found |= metric.accuracies()
        object.__setattr__(self, "_accuracies", found)

    def house_metrics(self) -> Iterator[Metric]:
        """How the scores add up, one a number."""
        for metric in self.metrics:
            yield from metric.metrics(FILTER, self.bootstrap_iters)

    def __call__(self, record: Record) -> tuple[Score, ...]:
        """The scores of an answered document.

        Raises:
            DocumentError: It cannot be scored, and why.
        """
        scores: list[Score] = []
        if record.exchanges:
            dialogue = self.follow_up(record)
            parts = replayed(dialogue, record.exchanges, by_order=True)
        else:
            parts = self._parts(record)
        for metric, doc, response in parts:
            filtered = _filtered(response)
            for measured in metric.measure(doc, response):
                decides = self._accuracies.get(measured.metric, True)
                scores.append(score_of(measured, FILTER, filtered, decides))
        return tuple(scores)

    def follow_up(self, record: Record) -> Dialogue[list[JudgedMetric]]:
        """Send the later turns of a chat to the tested model, then ask the judges; the
        result is what each metric measures.

        Raises:
            DocumentError: It cannot be scored, and why.
        """
        parts = self._parts(record, (yield from later_turns(record)))
        responses = yield from judged_together(parts)
        pairs = zip(parts, responses, strict=True)
        return [part._replace(response=response) for part, response in pairs]

    @property
    def models(self) -> Mapping[str, ModelSource]:
        """The judges, by their names in ``Ask.model``."""
        return judge_models(self.metrics)

    def _parts(self, record: Record, later: Sequence[str] = ()) -> list[JudgedMetric]:
        """The metrics with what each of them sees; each may write into its
        document."""
        return [
            JudgedMetric(
                metric,
                replace(record.doc),
                _response(record, metric.metric.category, later),
            )
            for metric in self.metrics
        ]


def _response(
    record: Record, method: SamplingMethod, later: Sequence[str]
) -> ModelResponse:
    """What a metric sees: the answers to requests of one kind, and to the later turns
    of a chat."""
    pairs = list(zip(record.requests, record.responses, strict=True))
    mine = [(q, a) for q, a in pairs if _method(q) == method]
    answers = [answer for _, answer in mine]
    for answer in answers:
        answer.raise_for_error()
    if method is SamplingMethod.GENERATIVE:
        return ModelResponse(
            input=mine[0][0].prompt if isinstance(mine[0][0], Generate) else None,
            text=[*(answer.text for answer in answers), *later],
            output_tokens=[range(answer.n_tokens) for answer in answers],
        )
    n = len(record.doc.choices) if method is SamplingMethod.LOGPROBS else len(answers)
    return ModelResponse(
        logprobs=_logprobs(answers[:n]),
        argmax_logits_eq_gold=[bool(answer.greedy) for answer in answers[:n]],
        output_tokens=[range(answer.n_tokens) for answer in answers[:n]],
        unconditioned_logprobs=_logprobs(answers[n:]) if answers[n:] else None,
    )


def _logprobs(answers: Sequence[Response]) -> list[float]:
    found = [answer.logprob for answer in answers if answer.logprob is not None]
    if len(found) < len(answers):
        raise DocumentError("the model gave no log-probability")
    return found


def _method(request: Request) -> SamplingMethod:
    if isinstance(request, Generate):
        return SamplingMethod.GENERATIVE
    if isinstance(request, Loglikelihood):
        return SamplingMethod.LOGPROBS
    return SamplingMethod.PERPLEXITY


def _filtered(response: ModelResponse) -> tuple[Any, ...]:
    """What results files show beside a score."""
    return tuple(response.text) or tuple(response.logprobs)
