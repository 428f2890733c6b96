"""The scorer of a task: from an answered document to its scores.

It runs each filter pipeline over the responses, hands what is left to the metrics of
the output type or to the task's own ``process_results``, and tells right from wrong. It
adds nothing up: :mod:`pytest_evals.scorers.metrics` does.

lighteval's metrics are imported only where a task has one (``MetricSpec.computed``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pytest_evals.core.dialogue import Dialogue, ModelSource, replayed
from pytest_evals.core.doc import Doc, handed
from pytest_evals.core.metric import BOOTSTRAP_ITERS, Metric
from pytest_evals.core.record import Record, Score
from pytest_evals.core.registry import Registry
from pytest_evals.core.request import Response
from pytest_evals.dialects.lm_eval.scoring.filter_scope import LOOKS_BEYOND, Neighbours
from pytest_evals.errors import DocumentError, EvalsError
from pytest_evals.scorers.choices import measure_choices
from pytest_evals.scorers.filters import TAKE_FIRST, Pipeline
from pytest_evals.scorers.metric_value import Measured, plain, score_of
from pytest_evals.scorers.metrics import (
    MetricSpec,
    is_accuracy,
    is_measured,
    known_metrics,
    metric,
)
from pytest_evals.scorers.perplexity import measure_continuation, measure_rolling
from pytest_evals.scorers.text import shown, text_metric
from pytest_evals.scorers.user_aggregation import Decides
from pytest_evals.scorers.user_code import UserCode

if TYPE_CHECKING:
    from pytest_evals.scorers.lighteval.response import ModelResponse
    from pytest_evals.scorers.lighteval.task_metric import Computed

ProcessResults = Callable[[dict[str, Any], list[Any]], Mapping[str, Any]]
"""A task's own scoring: row and filtered responses, one a request, to values by
metric."""
Measure = Callable[[Doc, tuple[Any, ...], "ModelResponse | None"], list[Measured]]
"""A document and its filtered responses, one a request, to what metrics say of it; with
the answers as computed metrics see them, where these are known."""
_Judged = Mapping[str, Mapping[str, Sequence[str]]]
"""Name of a pipeline → name of a metric → the replies of its judges."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scorer:
    """Scores the documents of one task.

    Args:
        output_type: Kind of the task's requests, as in lm-eval.
        metrics: What is measured; with ``process_results`` only how its values add up.
        pipelines: The ways to filter the responses; each gives scores of its own.
        repeats: Responses to each request, next to each other.
        process_results: The task's own scoring, instead of the metrics'.
        bootstrap_iters: Resamples of bootstrapped standard errors.

    Raises:
        UnknownNameError: No such output type, or a metric's name is misspelt.
        EvalsError: A metric's arguments are not what it takes, or two metrics or two
            pipelines have one name.
    """

    output_type: str
    metrics: tuple[MetricSpec, ...]
    pipelines: tuple[Pipeline, ...] = (TAKE_FIRST,)
    repeats: int = 1
    process_results: ProcessResults | None = None
    bootstrap_iters: int = BOOTSTRAP_ITERS
    _measure: Measure = field(init=False, repr=False, compare=False)
    _accuracies: Mapping[str, Decides] = field(init=False, repr=False, compare=False)
    _neighbours: Mapping[str, Neighbours] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Look everything up once, so that a bad name is told before any document."""
        known_metrics(self.output_type)
        _check_unique("filter pipelines", [one.name for one in self.pipelines])
        names = [name for spec in self.metrics for name in spec.names]
        _check_unique("metrics", names)
        self.unconditioned_query  # noqa: B018 - raises
        own = self.process_results
        measure = (
            _measured_by(self.metrics, self.output_type)
            if own is None
            else _by_task(own, self.output_type)
        )
        accuracies: dict[str, Decides] = {}
        for spec in self.metrics:
            computed = spec.computed
            accuracies |= (
                computed.accuracies() if computed else {spec.name: is_accuracy(spec)}
            )
        object.__setattr__(self, "_measure", measure)
        object.__setattr__(self, "_accuracies", accuracies)
        watched = {p.name: Neighbours.of(p) for p in self.pipelines if p.is_own}
        object.__setattr__(self, "_neighbours", watched)

    def __call__(self, record: Record) -> tuple[Score, ...]:
        """The scores of an answered document: for each pipeline, for each metric.

        Raises:
            DocumentError: It cannot be scored, and why.
        """
        scores: list[Score] = []
        judged: _Judged = {}
        if record.exchanges and self._with_judges:
            dialogue = self.follow_up(record)
            judged = replayed(dialogue, record.exchanges, by_order=True)
        for pipeline, filtered, response in self._seen(record):
            if response is not None and pipeline.name in judged:
                response = replace(response, judged=judged[pipeline.name])
            for measured in self.measured(record.doc, filtered, response):
                decides = self._accuracies.get(measured.metric, True)
                scores.append(score_of(measured, pipeline.name, filtered, decides))
        return tuple(scores)

    def _seen(
        self, record: Record
    ) -> Iterator[tuple[Pipeline, tuple[Any, ...], ModelResponse | None]]:
        """Each pipeline, with what it leaves and what computed metrics see."""
        responses = self._grouped(record.responses)
        for pipeline in self.pipelines:
            filtered = plain(pipeline.apply(responses, record.doc.row))
            if pipeline.name in self._neighbours:
                document = (responses, record.doc.row)
                self._neighbours[pipeline.name].look(document, filtered)
            response = self._response(record, responses, pipeline, filtered)
            yield pipeline, filtered, response

    @property
    def judges(self) -> Mapping[str, ModelSource]:
        """The judges of computed metrics, by their names in ``Ask.model``."""
        if not self._with_judges:
            return {}
        from pytest_evals.scorers.lighteval.judge_adapter import judge_models

        return judge_models(self._with_judges)

    @property
    def _with_judges(self) -> list[Computed]:
        computed = [spec.computed for spec in self.metrics if spec.computed is not None]
        return [one for one in computed if one.judges]

    def follow_up(self, record: Record) -> Dialogue[_Judged]:
        """Ask the judges about an answered document; the result is their replies.

        Raises:
            DocumentError: It cannot be scored, and why.
        """
        from pytest_evals.scorers.lighteval.judge_adapter import (
            JudgedMetric,
            judged_together,
        )

        parts = [
            (pipeline.name, JudgedMetric(computed, record.doc, response))
            for pipeline, _, response in self._seen(record)
            for computed in self._with_judges
            if response is not None
        ]
        responses = yield from judged_together([part for _, part in parts])
        found: dict[str, dict[str, Sequence[str]]] = {}
        for (name, _), response in zip(parts, responses, strict=True):
            found.setdefault(name, {}).update(response.judged)
        return found

    @property
    def unconditioned_query(self) -> str | None:
        """What stands for the question where choices are also asked without it, for a
        computed metric; ``None`` if none wants that.

        Raises:
            EvalsError: Two metrics want it otherwise.
        """
        wanted = {
            spec.computed.unconditioned_query
            for spec in self.metrics
            if spec.computed is not None and spec.computed.needs_unconditioned
        }
        if wanted and any(spec.name == "acc_mutual_info" for spec in self.metrics):
            wanted.add("")
        if len(wanted) > 1:
            raise EvalsError(
                "metrics of one task ask choices after one unconditioned_query, not "
                f"after {', '.join(map(repr, sorted(wanted)))}"
            )
        return next(iter(wanted), None)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is odd about the documents that were scored so far."""
        return tuple(
            LOOKS_BEYOND.format(name=repr(name))
            for name, seen in self._neighbours.items()
            if seen.differ
        )

    def measured(
        self, doc: Doc, filtered: tuple[Any, ...], response: ModelResponse | None = None
    ) -> list[Measured]:
        """What the metrics say of a document.

        Args:
            doc: The document.
            filtered: What a pipeline left of the responses, one a request.
            response: What computed metrics see; ``None`` to make it of ``filtered``.

        Raises:
            DocumentError: It cannot be scored, and why.
        """
        return self._measure(doc, filtered, response)

    def metric_for(self, name: str, filter: str) -> Metric:  # noqa: A002
        """How the scores of that name add up, also when the task file does not list it:
        what ``process_results`` returns beyond the list is averaged."""
        for spec in self.metrics:
            if spec.computed is not None and name in spec.names:
                return next(m for m in self.metrics_of(spec, filter) if m.name == name)
        named = [spec for spec in self.metrics if spec.name == name]
        spec = named[0] if named else MetricSpec(name=name, aggregation="mean")
        return self.metric(spec, filter, declared=not named)

    def metrics_of(self, spec: MetricSpec, filter: str) -> tuple[Metric, ...]:  # noqa: A002
        """The numbers of a metric, and how their values add up.

        Raises:
            EvalsError: See :func:`~pytest_evals.scorers.metrics.metric`.
        """
        if spec.computed is not None:
            return tuple(spec.computed.metrics(filter, self.bootstrap_iters))
        return (self.metric(spec, filter),)

    def metric(self, spec: MetricSpec, filter: str, declared: bool = False) -> Metric:  # noqa: A002
        """How the scores of a metric add up.

        Args:
            spec: The metric.
            filter: Name of the filter pipeline.
            declared: Whether any name is good; so it is with ``process_results``.

        Raises:
            EvalsError: See :func:`~pytest_evals.scorers.metrics.metric`.
        """
        declared = declared or self.process_results is not None
        return metric(spec, filter, self.output_type, declared, self.bootstrap_iters)

    def _grouped(self, responses: Sequence[Response]) -> list[list[Any]]:
        """One list a request, of what filters and metrics see of each response."""
        if not responses or len(responses) % self.repeats:
            raise DocumentError(
                f"{len(responses)} responses are not {self.repeats} for each request"
            )
        values = [_seen(self.output_type, response) for response in responses]
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
        """What computed metrics see: all answers, unless the task filters them."""
        if not any(spec.computed is not None for spec in self.metrics):
            return None
        from pytest_evals.scorers.lighteval.response import response_of

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
            raise EvalsError(f"two {noun} are called {name!r}; each needs its own name")


def _seen(output_type: str, response: Response) -> Any:
    """What lm-eval hands on of a response (0.4.13): text, log-probability, or
    log-probability with greedy flag."""
    response.raise_for_error()
    if output_type == "generate_until":
        return response.text
    if response.logprob is None:
        raise DocumentError("the model gave no log-probability")
    if output_type == "loglikelihood_rolling":
        return response.logprob
    if output_type == "loglikelihood" and response.greedy is None:
        raise DocumentError(
            "the model does not say whether greedy decoding gives the continuation"
        )
    return (response.logprob, bool(response.greedy))


_MEASURES: Registry[Callable[[Doc, Sequence[Any], Sequence[str]], list[Measured]]] = (
    Registry(
        "output_type",
        {
            "loglikelihood": measure_continuation,
            "loglikelihood_rolling": measure_rolling,
            "multiple_choice": measure_choices,
        },
    )
)


def _measured_by(specs: Sequence[MetricSpec], output_type: str) -> Measure:
    """The metrics' own scoring of an output type, in the order of the metrics."""
    if all(spec.computed is None for spec in specs):
        return _all_known(output_type, specs)
    parts = [
        _computed(spec.computed, output_type)
        if spec.computed is not None
        else _all_known(output_type, [spec])
        for spec in specs
    ]
    return lambda doc, filtered, response: [
        measured for part in parts for measured in part(doc, filtered, response)
    ]


def _computed(metric: Computed, output_type: str) -> Measure:
    from pytest_evals.scorers.lighteval.response import response_of

    return lambda doc, filtered, response: metric.measure(
        doc, response or response_of(output_type, filtered)
    )


def _all_known(output_type: str, specs: Sequence[MetricSpec]) -> Measure:
    """Metrics of lm-eval's kind, which share what they make of a document."""
    if output_type == "generate_until":
        metrics = [text_metric(spec) for spec in specs]
        return lambda doc, filtered, response: [
            m for one in metrics for m in one(doc, filtered[0])
        ]
    listed = [spec.name for spec in specs]
    names = tuple(name for name in listed if is_measured(name, output_type))
    measure = _MEASURES[output_type]
    return lambda doc, filtered, response: measure(doc, filtered, names)


def _by_task(process_results: ProcessResults, output_type: str) -> Measure:
    """The task's own scoring."""

    def measure(
        doc: Doc, filtered: tuple[Any, ...], response: ModelResponse | None
    ) -> list[Measured]:
        with UserCode("process_results"):
            values = process_results(handed(doc.row), list(filtered))
            if not isinstance(values, Mapping):
                raise DocumentError(f"it must return a mapping, not {values!r}")
        answer = _answer(doc, filtered, output_type)
        return [Measured(str(name), value, answer) for name, value in values.items()]

    return measure


def _answer(doc: Doc, filtered: tuple[Any, ...], output_type: str) -> str:
    """What a person would want to see beside the task's own values."""
    if output_type == "generate_until":
        return shown(filtered[0])
    name = {"multiple_choice": "acc", "loglikelihood": "acc"}.get(output_type)
    if name is None:
        return ""
    try:
        return _MEASURES[output_type](doc, filtered, (name,))[0].answer
    except DocumentError:
        # A filter of the task's own has changed the form; only the task knows it.
        return ", ".join(map(shown, filtered))
