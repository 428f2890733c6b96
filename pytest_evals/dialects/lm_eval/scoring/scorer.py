"""Scorer of a task: computes the scores of a record.

Runs each filter pipeline on the responses, then the metrics of the output type or the
task's ``process_results``, and decides correctness. Aggregation is in
:mod:`pytest_evals.scorers.metrics`.

Custom metrics are imported only if a task uses them (``MetricSpec.task_metric``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from pytest_evals.core.dialogue import Dialogue, ModelSource, replayed
from pytest_evals.core.doc import Doc, handed
from pytest_evals.core.metric import BOOTSTRAP_ITERS, Metric
from pytest_evals.core.record import Record, Score
from pytest_evals.core.registry import Registry
from pytest_evals.core.request import Response
from pytest_evals.dialects.lm_eval.scoring.filter_scope import (
    CROSS_DOCUMENT_WARNING,
    FilterScope,
)
from pytest_evals.errors import DocumentError, EvalsError
from pytest_evals.scorers.choices import (
    measure_choices,
    measure_continuation,
    measure_rolling,
)
from pytest_evals.scorers.filters import TAKE_FIRST, Pipeline
from pytest_evals.scorers.metric_value import (
    MetricValue,
    all_or_unscored,
    plain,
    score_of,
    unscored_value,
)
from pytest_evals.scorers.metrics import (
    MetricSpec,
    is_accuracy,
    is_measured,
    known_metrics,
    metric,
)
from pytest_evals.scorers.text import shown, text_metric
from pytest_evals.scorers.user_aggregation import Decides
from pytest_evals.scorers.user_code import UserCode

if TYPE_CHECKING:
    from pytest_evals.scorers.custom_metrics.response import ModelResponse
    from pytest_evals.scorers.custom_metrics.task_metric import TaskMetric

ProcessResults = Callable[[dict[str, Any], list[Any]], Mapping[str, Any]]
"""A task's own scoring: maps row and filtered responses, one for each request, to
values by metric."""
Measure = Callable[[Doc, tuple[Any, ...], "ModelResponse | None"], list[MetricValue]]
"""Maps a document, its filtered responses (one for each request), and the response for
custom metrics, if known, to values."""
_Judged = Mapping[str, Mapping[str, Sequence[str]]]
"""Name of a pipeline → name of a metric → replies of its judges."""


@dataclass(frozen=True, kw_only=True)
class Scorer:
    """Scores the documents of one task.

    Args:
        metrics: Metrics to compute; with ``process_results``, only their
            aggregation.
        pipelines: Filter pipelines; each has its own scores.
        repeats: Responses to each request, next to each other.
        process_results: The task's own scoring, which replaces the metrics'.

    Raises:
        UnknownNameError: The output type or a metric is unknown.
        EvalsError: A metric has invalid arguments, or two metrics or pipelines
            share a name.
    """

    output_type: str
    metrics: tuple[MetricSpec, ...]
    pipelines: tuple[Pipeline, ...] = (TAKE_FIRST,)
    repeats: int = 1
    process_results: ProcessResults | None = None
    bootstrap_iters: int = BOOTSTRAP_ITERS

    def __post_init__(self) -> None:
        """Look up all names, so that errors are reported before the run."""
        known_metrics(self.output_type)
        _check_unique("filter pipelines", [one.name for one in self.pipelines])
        names = [name for spec in self.metrics for name in spec.names]
        _check_unique("metrics", names)
        self.unconditioned_query, self._measure, self._accuracies  # noqa: B018

    @cached_property
    def _measure(self) -> Measure:
        if self.process_results is None:
            return _measure_of(self.metrics, self.output_type)
        return _measure_by_task(self.process_results, self.output_type)

    @cached_property
    def _accuracies(self) -> Mapping[str, Decides]:
        accuracies: dict[str, Decides] = {}
        for spec in self.metrics:
            if spec.task_metric is not None:
                accuracies |= spec.task_metric.accuracies()
            else:
                accuracies[spec.name] = is_accuracy(spec)
        return accuracies

    @cached_property
    def _filter_scopes(self) -> Mapping[str, FilterScope]:
        return {p.name: FilterScope.of(p) for p in self.pipelines if p.is_own}

    def __call__(self, record: Record) -> tuple[Score, ...]:
        """Scores of a document with responses: for each pipeline, for each metric."""
        scores: list[Score] = []
        judged: _Judged = {}
        if record.exchanges and self._with_judges:
            dialogue = self.follow_up(record)
            judged = replayed(dialogue, record.exchanges, by_order=True)
        for pipeline, filtered, response in self._filtered_responses(record):
            if response is not None and pipeline.name in judged:
                response = replace(response, judge_replies=judged[pipeline.name])
            for value in self.measured(record.doc, filtered, response):
                decides = self._accuracies.get(value.metric, True)
                scores.append(score_of(value, pipeline.name, filtered, decides))
        return tuple(scores)

    def _filtered_responses(
        self, record: Record
    ) -> Iterator[tuple[Pipeline, tuple[Any, ...], ModelResponse | None]]:
        """Each pipeline, with its filtered responses and the response for custom
        metrics."""
        responses = self._by_request(record.responses)
        for pipeline in self.pipelines:
            filtered = plain(pipeline.apply(responses, record.doc.row))
            if pipeline.name in self._filter_scopes:
                document = (responses, record.doc.row)
                self._filter_scopes[pipeline.name].check(document, filtered)
            response = self._response(record, responses, pipeline, filtered)
            yield pipeline, filtered, response

    @property
    def judges(self) -> Mapping[str, ModelSource]:
        """The judges of custom metrics, by their names in ``Ask.model``."""
        if not self._with_judges:
            return {}
        from pytest_evals.scorers.custom_metrics.task_metric import judge_models

        return judge_models(self._with_judges)

    @property
    def _with_judges(self) -> list[TaskMetric]:
        with_values = [spec.task_metric for spec in self.metrics if spec.task_metric]
        return [one for one in with_values if one.judges]

    def follow_up(self, record: Record) -> Dialogue[_Judged]:
        """Query the judges about a document with responses; return their replies."""
        from pytest_evals.scorers.custom_metrics.task_metric import (
            JudgedMetric,
            judge_dialogues,
        )

        parts = [
            (pipeline.name, JudgedMetric(task_metric, record.doc, response))
            for pipeline, _, response in self._filtered_responses(record)
            for task_metric in self._with_judges
            if response is not None
        ]
        responses = yield from judge_dialogues([part for _, part in parts])
        replies: dict[str, dict[str, Sequence[str]]] = {}
        for (name, _), response in zip(parts, responses, strict=True):
            replies.setdefault(name, {}).update(response.judge_replies)
        return replies

    @property
    def unconditioned_query(self) -> str | None:
        """Prompt for scoring choices without the question; ``None`` if no metric needs
        it. Raises EvalsError if two metrics need different prompts."""
        queries = {
            spec.task_metric.unconditioned_query
            for spec in self.metrics
            if spec.task_metric is not None and spec.task_metric.needs_unconditioned
        }
        if queries and any(spec.name == "acc_mutual_info" for spec in self.metrics):
            queries.add("")
        if len(queries) > 1:
            raise EvalsError(
                "metrics of one task must use the same unconditioned_query, not "
                f"{', '.join(map(repr, sorted(queries)))}"
            )
        return next(iter(queries), None)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about the documents that were scored so far."""
        custom = (one.task_metric for one in self.metrics)
        return (
            *(
                CROSS_DOCUMENT_WARNING.format(name=repr(name))
                for name, scope in self._filter_scopes.items()
                if scope.differ
            ),
            *(text for metric in custom if metric for text in metric.warnings),
        )

    def measured(
        self, doc: Doc, filtered: tuple[Any, ...], response: ModelResponse | None = None
    ) -> list[MetricValue]:
        """Values of the metrics for a document. ``filtered``: filtered responses of one
        pipeline, one for each request. ``response``: response for custom metrics;
        ``None`` to build it from ``filtered``."""
        return self._measure(doc, filtered, response)

    def metric_for(self, name: str, filter: str) -> Metric:  # noqa: A002
        """Aggregation of the scores with a name. A name that only ``process_results``
        returns is averaged."""
        for spec in self.metrics:
            if spec.task_metric is not None and name in spec.names:
                return next(m for m in self.metrics_of(spec, filter) if m.name == name)
        named = [spec for spec in self.metrics if spec.name == name]
        spec = named[0] if named else MetricSpec(name=name, aggregation="mean")
        return self.metric(spec, filter, declared=not named)

    def metrics_of(self, spec: MetricSpec, filter: str) -> tuple[Metric, ...]:  # noqa: A002
        """Aggregation of each value of a metric."""
        if spec.task_metric is not None:
            return tuple(spec.task_metric.metrics(filter, self.bootstrap_iters))
        return (self.metric(spec, filter),)

    def metric(self, spec: MetricSpec, filter: str, declared: bool = False) -> Metric:  # noqa: A002
        """Aggregation of a metric's scores. ``declared``: whether any name is valid,
        as with ``process_results``."""
        declared = declared or self.process_results is not None
        return metric(spec, filter, self.output_type, declared, self.bootstrap_iters)

    def _by_request(self, responses: Sequence[Response]) -> list[list[Any]]:
        """Responses as filters and metrics receive them, one list per request."""
        if not responses or len(responses) % self.repeats:
            raise DocumentError(
                f"{len(responses)} responses is not a multiple of repeats "
                f"({self.repeats})"
            )
        values = [response_value(self.output_type, response) for response in responses]
        return [
            values[start : start + self.repeats]
            for start in range(0, len(values), self.repeats)
        ]

    def _response(
        self,
        record: Record,
        responses: list[list[Any]],
        pipeline: Pipeline,
        filtered: tuple[Any, ...],
    ) -> ModelResponse | None:
        """Response for custom metrics: all answers, unless the task filters."""
        if not any(spec.task_metric is not None for spec in self.metrics):
            return None
        from pytest_evals.scorers.custom_metrics.response import response_of

        first = record.responses[:: self.repeats]
        return response_of(
            self.output_type,
            filtered,
            responses if pipeline == TAKE_FIRST else None,
            [response.n_tokens for response in first],
        )


def _check_unique(noun: str, names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise EvalsError(f"two {noun} are named {name!r}; names must be unique")


def response_value(output_type: str, response: Response) -> Any:
    """A response as lm-eval 0.4.13 represents it: text, log-probability, or a pair of
    log-probability and greedy flag."""
    if response.error:
        response.raise_for_error()
    if output_type == "generate_until":
        return response.text
    if response.logprob is None:
        raise DocumentError("the model returned no log-probability")
    if output_type == "loglikelihood_rolling":
        return response.logprob
    if output_type == "loglikelihood" and response.greedy is None:
        raise DocumentError(
            "the model does not report whether the continuation is the greedy one"
        )
    return (response.logprob, bool(response.greedy))


_MEASURES: Registry[
    Callable[[Doc, Sequence[Any], Sequence[str]], list[MetricValue]]
] = Registry(
    "output_type",
    {
        "loglikelihood": measure_continuation,
        "loglikelihood_rolling": measure_rolling,
        "multiple_choice": measure_choices,
    },
)


def _measure_of(specs: Sequence[MetricSpec], output_type: str) -> Measure:
    if all(spec.task_metric is None for spec in specs):
        return _measure_builtin(output_type, specs)
    parts = [
        (
            spec.names,
            _measure_custom(spec.task_metric, output_type)
            if spec.task_metric is not None
            else _measure_builtin(output_type, [spec]),
        )
        for spec in specs
    ]
    return lambda doc, filtered, response: all_or_unscored(
        [(names, partial(part, doc, filtered, response)) for names, part in parts],
        unscored_value,
    )


def _measure_custom(metric: TaskMetric, output_type: str) -> Measure:
    from pytest_evals.scorers.custom_metrics.response import response_of

    return lambda doc, filtered, response: metric.measure(
        doc, response or response_of(output_type, filtered)
    )


def _measure_builtin(output_type: str, specs: Sequence[MetricSpec]) -> Measure:
    """lm-eval's metrics, which share intermediate results of a document."""
    if output_type == "generate_until":
        metrics = [(spec.names, text_metric(spec)) for spec in specs]
        return lambda doc, filtered, response: all_or_unscored(
            [(names, partial(metric, doc, filtered[0])) for names, metric in metrics],
            unscored_value,
        )
    requested = [spec.name for spec in specs]
    names = tuple(name for name in requested if is_measured(name, output_type))
    measure = _MEASURES[output_type]
    return lambda doc, filtered, response: measure(doc, filtered, names)


def _measure_by_task(process_results: ProcessResults, output_type: str) -> Measure:
    def measure(
        doc: Doc, filtered: tuple[Any, ...], response: ModelResponse | None
    ) -> list[MetricValue]:
        with UserCode("process_results"):
            values = process_results(handed(doc.row), list(filtered))
            if not isinstance(values, Mapping):
                raise DocumentError(f"it must return a mapping, not {values!r}")
        answer = _answer(doc, filtered, output_type)
        return [MetricValue(str(name), value, answer) for name, value in values.items()]

    return measure


def _answer(doc: Doc, filtered: tuple[Any, ...], output_type: str) -> str:
    """The answer to show next to the task's own values."""
    if output_type == "generate_until":
        return shown(filtered[0])
    name = {"multiple_choice": "acc", "loglikelihood": "acc"}.get(output_type)
    if name is None:
        return ""
    try:
        return _MEASURES[output_type](doc, filtered, (name,))[0].answer
    except DocumentError:
        # A custom filter has changed the type, which only the task understands.
        return ", ".join(map(shown, filtered))
