"""Validated metrics of a task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from pytest_evals.core.task import TaskOptions
from pytest_evals.dialects.json_values import as_json
from pytest_evals.errors import EvalsError, Place, Problem, TaskFileError
from pytest_evals.scorers.custom_metrics.entry import check_fields
from pytest_evals.scorers.custom_metrics.metric import IGNORED, Metric, SamplingMethod
from pytest_evals.scorers.custom_metrics.task_metric import TaskMetric
from pytest_evals.scorers.metrics import family_metric


@dataclass(frozen=True, slots=True)
class TaskMetrics:
    """The metrics of a task.

    Args:
        metrics: The metrics; their result names are unique.
        n_samples: Answers to each prompt that they need, at least 1.
        warnings: Problems that do not prevent the run.
    """

    metrics: tuple[TaskMetric, ...]
    n_samples: int
    warnings: tuple[str, ...] = ()

    @property
    def methods(self) -> tuple[SamplingMethod, ...]:
        """Kinds of requests that the metrics need, in their order."""
        return tuple(dict.fromkeys(one.metric.category for one in self.metrics))

    @property
    def needs_unconditioned(self) -> bool:
        """Whether to score choices without the question, too."""
        return any(one.needs_unconditioned for one in self.metrics)

    def definitions(self) -> list[dict[str, Any]]:
        """The metrics as JSON values, identical in every process."""
        return [_definition(one.metric) for one in self.metrics]


def task_metrics(
    config: Any, place: Place, arguments: Mapping[str, Any], options: TaskOptions
) -> TaskMetrics:
    """Validate the metrics of a task. ``arguments``: arguments from the command line
    for metrics over several answers.

    Raises:
        TaskFileError: A metric is invalid or incomplete, or two share a name.
    """
    problems: list[Problem] = []
    metrics: list[TaskMetric] = []
    warnings: list[str] = []
    for given in config.metrics:
        if getattr(getattr(given, "value", given), "category", None) == IGNORED:
            name = getattr(given, "metric_name", given)
            warnings.append(
                f"metric {name!r:.80} is not computed: MetricCategory.IGNORED"
            )
            continue
        try:
            metric = _metric(given)
            check_fields(metric)
            # Arguments of the command line do not change the metric's name.
            if arguments and _takes_arguments(metric):
                metric = metric.with_arguments(arguments)
            one = TaskMetric(metric, reasoning_tags=options.default_reasoning_tags)
            one.check_requirements(may_execute=options.allow_unsafe_code)
            if one not in metrics:
                metrics.append(one)
        except EvalsError as error:
            message, _, fix = str(error).partition("\n  fix: ")
            key, colon, value = fix.partition(": ")
            as_python = f'Metrics.NAME(sample_params={{"{key}": {value}}})'
            fix = as_python if colon else fix
            problems.append(Problem(f"metrics: {message}", place, fix))
    names = Counter(name for one in metrics for name in one.names)
    problems += [
        Problem(f"metrics: two metrics are named {name!r}", place)
        for name, n in names.items()
        if n > 1
    ]
    if problems:
        raise TaskFileError(problems)
    if arguments and not any(_takes_arguments(one.metric) for one in metrics):
        listed = ", ".join(f"@{key}={value}" for key, value in arguments.items())
        warnings.append(
            f"no metric accepts {listed}; only metrics over several answers do"
        )
    return TaskMetrics(tuple(metrics), _n_samples(config, metrics), tuple(warnings))


def _metric(given: Any) -> Metric:
    """Convert a metric by name, or one of an installed lighteval."""
    if isinstance(given, str):
        return family_metric(f"lighteval:{given}", {}).metric
    given = getattr(given, "value", given)
    if isinstance(given, Metric):
        return given
    try:
        return Metric(
            given.metric_name,
            given.higher_is_better,
            SamplingMethod(str(getattr(given.category, "value", given.category))),
            given.sample_level_fn,
            given.corpus_level_fn,
        )
    except (AttributeError, ValueError):
        raise EvalsError(
            f"{given!r:.80} is not a metric\n  fix: metrics=[Metrics.exact_match]"
        ) from None


def _takes_arguments(metric: Metric) -> bool:
    return any("@" in name for name in metric.names)


def _n_samples(config: Any, metrics: Sequence[TaskMetric]) -> int:
    given = config.num_samples
    listed = list(given) if isinstance(given, list | tuple) else [given or 1]
    required = (one.metric.num_samples() for one in metrics)
    return max(1, *listed, *(n for n in required if n is not None))


def _definition(metric: Metric) -> dict[str, Any]:
    names = list(metric.names)
    computation = metric.sample_level_fn
    arguments = {
        field.name: as_json(getattr(computation, field.name))
        for field in (fields(computation) if is_dataclass(computation) else ())
        if field.init
    }
    return {
        "metric": names[0] if len(names) == 1 else names,
        "category": metric.category.value,
        "class": getattr(computation, "__name__", type(computation).__name__),
        # The address of an object differs between processes.
        "arguments": {
            key: value.partition(" at 0x")[0] if isinstance(value, str) else value
            for key, value in arguments.items()
        },
    }
