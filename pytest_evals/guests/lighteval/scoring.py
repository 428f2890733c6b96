"""Scores of a document: each metric receives the responses to its kind of requests, and
all turns of a multi-turn chat."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from pytest_evals.core.dialogue import Ask, Dialogue, ModelSource, replayed
from pytest_evals.core.metric import BOOTSTRAP_ITERS, Metric
from pytest_evals.core.record import Record, Score
from pytest_evals.core.request import (
    Generate,
    Loglikelihood,
    Message,
    Request,
    Response,
    Rolling,
)
from pytest_evals.errors import DocumentError
from pytest_evals.scorers.custom_metrics.metric import SamplingMethod
from pytest_evals.scorers.custom_metrics.response import ModelResponse
from pytest_evals.scorers.custom_metrics.task_metric import (
    JudgedMetric,
    TaskMetric,
    judge_dialogues,
    judge_models,
)
from pytest_evals.scorers.metric_value import all_or_unscored, score_of
from pytest_evals.scorers.user_aggregation import Decides

FILTER = "none"
"""Name of the filter in results; the dialect has no filters."""
TURNS = "multi_turn_queries"
_REQUESTS: Mapping[SamplingMethod, type[Request]] = {
    SamplingMethod.GENERATIVE: Generate,
    SamplingMethod.LOGPROBS: Loglikelihood,
    SamplingMethod.PERPLEXITY: Rolling,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricScorer:
    """Scores the documents of one task. ``bootstrap_iters``: maximum number of
    resamples for bootstrapped standard errors."""

    metrics: tuple[TaskMetric, ...]
    bootstrap_iters: int = BOOTSTRAP_ITERS
    _accuracies: Mapping[str, Decides] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Look up once which values count as correct."""
        each = [metric.accuracies() for metric in self.metrics]
        accuracies = {name: how for one in each for name, how in one.items()}
        object.__setattr__(self, "_accuracies", accuracies)

    def core_metrics(self) -> Iterator[Metric]:
        """Aggregation of each value, one metric for each name."""
        for metric in self.metrics:
            yield from metric.metrics(FILTER, self.bootstrap_iters)

    def __call__(self, record: Record) -> tuple[Score, ...]:
        """Score a document with responses."""
        if record.exchanges:
            dialogue = self.follow_up(record)
            parts = replayed(dialogue, record.exchanges, by_order=True)
        else:
            parts = self._parts(record)
        scores = all_or_unscored(
            [(part.metric.names, partial(self._scores, part)) for part in parts],
            lambda name, why: Score(metric=name, filter=FILTER, unscored=why),
        )
        return tuple(scores)

    def _scores(self, part: JudgedMetric) -> list[Score]:
        metric, doc, response = part
        # Shown next to a score in results files.
        filtered: tuple[Any, ...] = tuple(response.text) or tuple(response.logprobs)
        return [
            score_of(one, FILTER, filtered, self._accuracies.get(one.metric, True))
            for one in metric.measure(doc, response)
        ]

    def follow_up(self, record: Record) -> Dialogue[list[JudgedMetric]]:
        """Send the later turns of a chat to the tested model, then query the judges;
        return the inputs of each metric."""
        parts = self._parts(record, (yield from later_turns(record)))
        responses = yield from judge_dialogues(parts)
        pairs = zip(parts, responses, strict=True)
        return [part._replace(response=response) for part, response in pairs]

    @property
    def models(self) -> Mapping[str, ModelSource]:
        """The judges, by their names in ``Ask.model``."""
        return judge_models(self.metrics)

    def _parts(self, record: Record, later: Sequence[str] = ()) -> list[JudgedMetric]:
        """Each metric with its own copy of the document, which it may modify, and its
        response."""
        return [
            JudgedMetric(one, replace(record.doc), _response(record, category, later))
            for one in self.metrics
            for category in [one.metric.category]
        ]


def _response(
    record: Record, method: SamplingMethod, later: Sequence[str]
) -> ModelResponse:
    """The responses to one kind of requests, plus answers to later turns of a chat."""
    pairs = zip(record.requests, record.responses, strict=True)
    of_method = [(q, a) for q, a in pairs if isinstance(q, _REQUESTS[method])]
    answers = [answer.raise_for_error() for _, answer in of_method]
    if method is SamplingMethod.GENERATIVE:
        return ModelResponse(
            input=getattr(of_method[0][0], "prompt", None),
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
    logprobs = [answer.logprob for answer in answers if answer.logprob is not None]
    if len(logprobs) < len(answers):
        raise DocumentError("the model returned no log-probability")
    return logprobs


# The turns are in ``doc.specific["multi_turn_queries"]``, as in lighteval's MT-Bench;
# the first turn is the document's query. Judges grade the answers.
def later_turns(record: Record) -> Dialogue[list[str]]:
    """Send the second and later turns; return the model's answers to them.

    Raises:
        DocumentError: A response contains an error.
    """
    queries = (record.doc.specific or {}).get(TURNS)
    request = next((r for r in record.requests if isinstance(r, Generate)), None)
    answers: list[str] = []
    if not isinstance(queries, list | tuple) or request is None:
        return answers
    answer = record.responses[0].text
    for query in queries[1:]:
        prompt = request.prompt
        earlier = (Message("user", prompt),) if isinstance(prompt, str) else prompt
        messages = (*earlier, Message("assistant", answer), Message("user", str(query)))
        request = replace(request, prompt=messages)
        (response,) = yield [Ask("", request)]
        answer = response.raise_for_error().text
        answers.append(answer)
    return answers
