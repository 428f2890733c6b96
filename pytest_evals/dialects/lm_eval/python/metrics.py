"""Metrics of a task class that are none of lm-eval's: lighteval's by name, and those of
the user's hooks. The class never sees them: they are taken out of ``metric_list`` and
measured beside what its ``process_results`` gives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from pytest_evals.core.dialogue import Dialogue, ModelSource, replayed
from pytest_evals.core.metric import Metric
from pytest_evals.core.record import Record, Score
from pytest_evals.core.task import TaskOptions
from pytest_evals.dialects.lm_eval.python.requests import repeats_of
from pytest_evals.dialects.lm_eval.scoring.metric_names import LIGHTEVAL, MetricNames
from pytest_evals.dialects.yaml_reader.section import Section
from pytest_evals.errors import EvalsError, Place, Problem, TaskFileError
from pytest_evals.scorers.lighteval.judge_adapter import (
    JudgedMetric,
    judge_models,
    judged_together,
)
from pytest_evals.scorers.lighteval.response import ModelResponse, response_of
from pytest_evals.scorers.lighteval.task_metric import Computed
from pytest_evals.scorers.metric_value import score_of
from pytest_evals.scorers.user_aggregation import Decides

_UNFILTERED = "none"
"""lm-eval's name of the pipeline that takes the first response."""


@dataclass(frozen=True, slots=True)
class MetricEntry:
    """An entry of ``metric_list`` that is not for the class."""

    name: str
    arguments: Mapping[str, Any]
    place: Place


def entries_apart(
    top: Section, options: TaskOptions
) -> tuple[tuple[MetricEntry, ...], list[Any] | None]:
    """The entries of ``metric_list`` that are not for the class, and the others;
    ``None`` where all are."""
    given = top.values.get("metric_list")
    if not isinstance(given, list):
        return (), None
    ours, theirs = [], []
    for entry, values in zip(top.entries("metric_list"), given, strict=False):
        name = values.get("metric") if isinstance(values, dict) else None
        if isinstance(name, str) and (
            name.startswith(LIGHTEVAL) or name in options.metrics
        ):
            rest = {key: value for key, value in values.items() if key != "metric"}
            ours.append(MetricEntry(name, rest, entry.place("metric")))
        else:
            theirs.append(values)
    return tuple(ours), theirs if ours else None


def made(
    entries: Sequence[MetricEntry], output_type: str, repeats: int, options: TaskOptions
) -> ComputedMetrics:
    """The metrics of some entries.

    Raises:
        TaskFileError: There is no such metric, or it cannot be measured here.
    """
    found: list[Computed] = []
    problems: list[Problem] = []
    for entry in entries:
        try:
            names = MetricNames(options.metrics, output_type)
            computed = names.computed(entry.name, entry.arguments)
            assert computed is not None, "only such names are kept apart"
            allowed = options.allow_unsafe_code
            computed.check(output_type, repeats, may_execute=allowed)
            if computed.needs_unconditioned:
                raise EvalsError(
                    f"metric {entry.name!r} asks choices without the question, and a "
                    "class makes its requests itself"
                )
            found.append(computed)
        except EvalsError as error:
            what, _, fix = str(error).partition("\n  fix: ")
            problems.append(Problem(what, entry.place, fix))
    if problems:
        raise TaskFileError(problems)
    return ComputedMetrics(tuple(found), output_type, options.bootstrap_iters)


@dataclass(frozen=True, slots=True)
class ComputedMetrics:
    """The metrics of a task.

    Args:
        metrics: Each of them.
        output_type: The task's.
        iterations: Resamples of bootstrapped standard errors, at most.
    """

    metrics: tuple[Computed, ...]
    output_type: str
    iterations: int
    _accuracies: Mapping[str, Decides] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Look up once which numbers tell right from wrong."""
        found: dict[str, Decides] = {}
        for metric in self.metrics:
            found |= metric.accuracies()
        object.__setattr__(self, "_accuracies", found)

    @property
    def judges(self) -> Mapping[str, ModelSource]:
        """The judges that they ask, by their names in ``Ask.model``."""
        return judge_models(self.metrics)

    def house_metrics(self, pipelines: Sequence[str]) -> Iterator[Metric]:
        """How their values add up, one a pipeline and number."""
        for pipeline in pipelines:
            for metric in self.metrics:
                yield from metric.metrics(pipeline, self.iterations)

    def scores(
        self, record: Record, instances: Sequence[Any], pipeline: str
    ) -> Iterator[Score]:
        """Their scores of a document, of one filter pipeline.

        Args:
            record: The document.
            instances: lm-eval's, after all filters.
            pipeline: Name of the pipeline.

        Raises:
            DocumentError: It cannot be measured, and why.
        """
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
        """Ask the judges; the result is what each metric measures, with the name of its
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
        responses = yield from judged_together([part for _, part in parts])
        return [
            (name, part._replace(response=response))
            for (name, part), response in zip(parts, responses, strict=True)
        ]

    def _response(
        self, record: Record, instances: Sequence[Any], pipeline: str
    ) -> ModelResponse:
        """What metrics see: all answers, unless the task filters them."""
        starts = accumulate(map(repeats_of, instances[:-1]), initial=0)
        n_tokens = [record.responses[start].n_tokens for start in starts]
        filtered = [one.filtered_resps[pipeline] for one in instances]
        everything = [one.resps for one in instances]
        unfiltered = pipeline == _UNFILTERED
        return response_of(
            self.output_type, filtered, everything if unfiltered else None, n_tokens
        )
