"""Metrics of a task class that do not come from lm-eval: those of families, such as
``lighteval:rouge_t5``, and of user hooks. They are removed from ``metric_list`` and
computed next to the class's ``process_results``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

from pytest_evals.core.dialogue import Dialogue, ModelSource, replayed
from pytest_evals.core.metric import Metric
from pytest_evals.core.record import Record, Score
from pytest_evals.core.task import TaskOptions
from pytest_evals.dialects.lm_eval.metric_names import MetricNames
from pytest_evals.dialects.lm_eval.python.requests import repeats_of
from pytest_evals.dialects.yaml_reader.section import Section
from pytest_evals.errors import EvalsError, Problem, TaskFileError
from pytest_evals.scorers.custom_metrics.response import ModelResponse, response_of
from pytest_evals.scorers.custom_metrics.task_metric import (
    JudgedMetric,
    TaskMetric,
    judge_dialogues,
    judge_models,
)
from pytest_evals.scorers.metric_value import score_of
from pytest_evals.scorers.metrics import is_in_family
from pytest_evals.scorers.user_aggregation import Decides

_UNFILTERED = "none"  # lm-eval's name for the pipeline that takes the first response


def split_entries(
    top: Section, options: TaskOptions
) -> tuple[list[Section], list[Any] | None]:
    """Split ``metric_list`` into external entries and those of the class; the latter
    are ``None`` if the list has no external entries."""
    ours, theirs = list[Section](), list[Any]()
    if not isinstance(top.values.get("metric_list"), list):
        return ours, None
    for entry in top.entries("metric_list"):
        name = entry.values.get("metric")
        if isinstance(name, str) and (is_in_family(name) or name in options.metrics):
            ours.append(entry)
        else:
            theirs.append(entry.values)
    return ours, theirs if ours else None


def build_metrics(
    entries: Sequence[Section], output_type: str, repeats: int, options: TaskOptions
) -> ExternalMetrics:
    """Build the metrics of external entries."""
    metrics: list[TaskMetric] = []
    problems: list[Problem] = []
    names = MetricNames(options.metrics, output_type)
    for entry in entries:
        name = entry.values["metric"]
        rest = {key: one for key, one in entry.values.items() if key != "metric"}
        try:
            task_metric = names.find(name, rest)
            assert task_metric is not None, "split_entries keeps only registered names"
            allowed = options.allow_unsafe_code
            task_metric.check(output_type, repeats, may_execute=allowed)
            if task_metric.needs_unconditioned:
                raise EvalsError(
                    f"metric {name!r} scores choices without the question, but a "
                    "task class builds its own requests"
                )
            metrics.append(task_metric)
        except EvalsError as error:
            message, _, fix = str(error).partition("\n  fix: ")
            problems.append(Problem(message, entry.place("metric"), fix))
    if problems:
        raise TaskFileError(problems)
    return ExternalMetrics(tuple(metrics), output_type, options.bootstrap_iters)


@dataclass(frozen=True)
class ExternalMetrics:
    """The external metrics of a task. ``iterations``: maximum number of resamples
    for bootstrapped standard errors."""

    metrics: tuple[TaskMetric, ...]
    output_type: str
    iterations: int

    @cached_property
    def _accuracies(self) -> Mapping[str, Decides]:
        accuracies: dict[str, Decides] = {}
        for metric in self.metrics:
            accuracies |= metric.accuracies()
        return accuracies

    @property
    def judges(self) -> Mapping[str, ModelSource]:
        """The judges, by their names in ``Ask.model``."""
        return judge_models(self.metrics)

    def core_metrics(self, pipelines: Sequence[str]) -> Iterator[Metric]:
        """Aggregation of each value, for each pipeline and name."""
        for pipeline in pipelines:
            for metric in self.metrics:
                yield from metric.metrics(pipeline, self.iterations)

    def scores(
        self, record: Record, instances: Sequence[Any], pipeline: str
    ) -> Iterator[Score]:
        """Scores of a document for one filter pipeline. ``instances``: lm-eval's
        instances, after all filters."""
        dialogue = self.dialogue(record, instances)
        for name, part in replayed(dialogue, record.exchanges, by_order=True):
            if name == pipeline:
                filtered = tuple(one.filtered_resps[name] for one in instances)
                for measured in part.metric.measure(part.doc, part.response):
                    decides = self._accuracies.get(measured.metric, True)
                    yield score_of(measured, name, filtered, decides)

    def dialogue(
        self, record: Record, instances: Sequence[Any]
    ) -> Dialogue[list[tuple[str, JudgedMetric]]]:
        """Query the judges; return the inputs of each metric with the name of its
        pipeline."""
        parts = [
            (
                name,
                JudgedMetric(
                    metric, record.doc, self._response(record, instances, name)
                ),
            )
            for name in instances[0].filtered_resps
            for metric in self.metrics
        ]
        responses = yield from judge_dialogues([part for _, part in parts])
        return [
            (name, part._replace(response=response))
            for (name, part), response in zip(parts, responses, strict=True)
        ]

    def _response(
        self, record: Record, instances: Sequence[Any], pipeline: str
    ) -> ModelResponse:
        """Input of the metrics: all responses, unless the task filters them."""
        starts = accumulate(map(repeats_of, instances[:-1]), initial=0)
        n_tokens = [record.responses[start].n_tokens for start in starts]
        filtered = [one.filtered_resps[pipeline] for one in instances]
        everything = [one.resps for one in instances]
        unfiltered = pipeline == _UNFILTERED
        return response_of(
            self.output_type, filtered, everything if unfiltered else None, n_tokens
        )
