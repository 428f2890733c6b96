"""lm-eval's keys for scoring: ``metric_list``, ``filter_list``, ``process_results``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_evals.core.metric import Metric
from pytest_evals.errors import EvalsError, Problem
from pytest_evals.frontends.section import Section
from pytest_evals.scorers.documents import Scorer
from pytest_evals.scorers.filters import TAKE_FIRST, FilterStep, Pipeline, pipeline
from pytest_evals.scorers.metrics import MetricSpec, default_metrics, metric

__all__ = ["Scoring", "read_scoring"]

_OWN_KEYS = ("metric", "aggregation", "higher_is_better", "hf_evaluate")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scoring:
    """How a task's answers are scored.

    Args:
        specs: The metrics as the task file gives them.
        metrics: One a metric and filter pipeline.
        pipelines: What answers go through.
        process_results: A function of the user's that scores instead.
        warnings: What is odd about it.
    """

    specs: tuple[MetricSpec, ...]
    metrics: tuple[Metric, ...]
    pipelines: tuple[Pipeline, ...]
    process_results: Callable[..., Mapping[str, Any]] | None
    warnings: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the metrics."""
        return tuple(spec.name for spec in self.specs)

    def scorer(self, output_type: str, repeats: int) -> Scorer:
        """The function from an answered record to its scores."""
        return Scorer(
            output_type=output_type,
            metrics=self.specs,
            pipelines=self.pipelines,
            repeats=repeats,
            process_results=self.process_results,
        )


def read_scoring(top: Section, output_type: str, repeats: int) -> Scoring:
    """The scoring of a task file; its faults are among the section's problems."""
    process_results = top.function("process_results")
    declared = process_results is not None
    pipelines = _pipelines(top)
    warnings: list[str] = []
    specs: list[MetricSpec] = []
    metrics: list[Metric] = []
    listed = _listed(top, output_type, declared, warnings)
    for spec, place in listed:
        try:
            made = [metric(spec, p.name, output_type, declared) for p in pipelines]
        except EvalsError as error:
            fault = place["aggregation"] if _blames(error, spec) else place["metric"]
            top.problems.append(Problem(str(error), fault))
            continue
        specs.append(spec)
        metrics += made
    by_pipeline = [m for p in pipelines for m in metrics if m.filter == p.name]
    return Scoring(
        specs=tuple(specs),
        metrics=tuple(by_pipeline),
        pipelines=pipelines,
        process_results=process_results,
        warnings=tuple(warnings),
    )


def _listed(
    top: Section, output_type: str, declared: bool, warnings: list[str]
) -> list[tuple[MetricSpec, dict[str, Any]]]:
    """The metrics with the places of their keys."""
    if top.values.get("metric_list") is None:
        top.raw("metric_list")
        place = top.place("output_type" if "output_type" in top else "task")
        places = {"metric": place, "aggregation": place}
        return [(spec, places) for spec in default_metrics(output_type)]
    found = []
    for entry in top.entries("metric_list"):
        spec = _spec(entry, output_type, declared)
        if spec is None:
            continue
        if spec.aggregation is None and (declared or spec.function is not None):
            warnings.append(f"metric {spec.name!r} has no aggregation of its own")
        places = {key: entry.place(key) for key in ("metric", "aggregation")}
        found.append((spec, places))
    return found


def _spec(entry: Section, output_type: str, declared: bool) -> MetricSpec | None:
    given = entry.raw("metric")
    if given is None or given == "":
        entry.problem(None, "an entry of metric_list names a metric", "metric: acc")
        return None
    if not isinstance(given, str) and not callable(given):
        entry.wrong("metric", given, (str,))
        return None
    called = output_type == "generate_until" and not declared
    if called and entry.values.get("hf_evaluate"):
        what = "metrics of the evaluate library are not supported by this version"
        entry.problem("hf_evaluate", f"hf_evaluate: {what}")
    aggregation = entry.raw("aggregation")
    if not (
        aggregation is None or isinstance(aggregation, str) or callable(aggregation)
    ):
        entry.wrong("aggregation", aggregation, (str,))
        return None
    up = entry.raw("higher_is_better")
    if up is not None and not isinstance(up, bool):
        entry.wrong("higher_is_better", up, (bool,))
    name = given if isinstance(given, str) else _name_of(given)
    rest = {key: v for key, v in entry.values.items() if key not in _OWN_KEYS}
    return MetricSpec(
        name=name,
        function=given if callable(given) and not declared else None,
        aggregation=aggregation,
        higher_is_better=up if isinstance(up, bool) else None,
        arguments={} if declared else rest,
    )


def _name_of(function: Any) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def _blames(error: EvalsError, spec: MetricSpec) -> bool:
    """Whether an error is about the aggregation."""
    return isinstance(spec.aggregation, str) and "aggregation" in str(error)


def _pipelines(top: Section) -> tuple[Pipeline, ...]:
    if top.values.get("filter_list") is None:
        top.raw("filter_list")
        return (TAKE_FIRST,)
    found: dict[str, Pipeline] = {}
    for entry in top.entries("filter_list"):
        name = entry.text("name")
        if not name:
            fix = "name: strict-match"
            entry.problem(None, "an entry of filter_list has a name", fix)
        if name in found:
            entry.problem("name", f"two entries of filter_list are called {name!r}")
        made = _pipeline(entry, name)
        if made is not None:
            found[name] = made
        entry.close("an entry of filter_list")
    return tuple(found.values()) or (TAKE_FIRST,)


def _pipeline(entry: Section, name: str) -> Pipeline | None:
    steps: list[FilterStep] = []
    n_problems = len(entry.problems)
    for step in entry.entries("filter"):
        function = step.raw("function")
        if not isinstance(function, str) and not callable(function):
            fix = "function: take_first"
            step.problem("function", "a filter names its function", fix)
            continue
        arguments = {k: v for k, v in step.values.items() if k != "function"}
        made = FilterStep(function=function, arguments=arguments)
        try:
            pipeline(name, [made])
        except EvalsError as error:
            step.problem("function", str(error))
        steps.append(made)
    if not steps and len(entry.problems) == n_problems:
        fix = "filter: [{function: take_first}]"
        entry.problem("filter", f"the pipeline {name!r} has no filters", fix)
    return pipeline(name, steps) if len(entry.problems) == n_problems else None
