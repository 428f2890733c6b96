"""lm-eval's keys for scoring: ``metric_list``, ``filter_list``, ``process_results``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from pytest_evals.core.metric import Metric
from pytest_evals.errors import EvalsError, Place, Problem, did_you_mean
from pytest_evals.frontends.functions import missing
from pytest_evals.frontends.section import Section
from pytest_evals.scorers.documents import Scorer
from pytest_evals.scorers.filters import TAKE_FIRST, FilterStep, Pipeline, pipeline
from pytest_evals.scorers.metrics import METRICS, MetricSpec, default_metrics, metric

__all__ = ["Scoring", "read_scoring"]

_OWN_KEYS = ("metric", "aggregation", "higher_is_better", "hf_evaluate")


class Scoring(NamedTuple):
    """How a task's answers are scored.

    Args:
        scorer: From an answered record to its scores.
        metrics: One a filter pipeline and metric.
        warnings: What is odd about it.
    """

    scorer: Scorer
    metrics: tuple[Metric, ...]
    warnings: tuple[str, ...]


class _Listed(NamedTuple):
    """A metric, and where its keys stand."""

    spec: MetricSpec
    place: Place
    aggregation_place: Place
    remarks: tuple[str, ...] = ()


def read_scoring(top: Section, output_type: str, repeats: int) -> Scoring:
    """The scoring of a task file; its faults are among the section's problems."""
    everything = Scorer(
        output_type=output_type,
        metrics=(),
        pipelines=_pipelines(top),
        repeats=repeats,
        process_results=top.function("process_results"),
    )
    declared = everything.process_results is not None
    warnings: list[str] = []
    specs: list[MetricSpec] = []
    metrics: list[Metric] = []
    for spec, place, aggregation_place, remarks in _listed(top, output_type, declared):
        warnings += remarks
        try:
            replace(everything, metrics=(spec,))
            for pipe in everything.pipelines:
                metrics.append(metric(spec, pipe.name, output_type, declared))
        except EvalsError as error:
            fault = aggregation_place if _blames(error, spec) else place
            top.problems.append(Problem(str(error), fault))
            continue
        specs.append(spec)
        if spec.aggregation is None and spec.name not in METRICS:
            warnings.append(
                f"metric {spec.name!r} has no aggregation; the mean is taken"
            )
    by_pipeline = [
        m for pipe in everything.pipelines for m in metrics if m.filter == pipe.name
    ]
    scorer = replace(everything, metrics=tuple(specs))
    return Scoring(scorer, tuple(by_pipeline), tuple(warnings))


def _listed(top: Section, output_type: str, declared: bool) -> list[_Listed]:
    given = top.raw("metric_list")
    if given is None:
        place = top.place("output_type" if "output_type" in top else "task")
        return [_Listed(spec, place, place) for spec in default_metrics(output_type)]
    if given == []:
        top.problem(
            "metric_list", "metric_list is empty", "metric_list: [{metric: acc}]"
        )
    found = []
    for entry in top.entries("metric_list"):
        spec = _spec(entry, output_type, declared)
        if spec is not None and missing not in entry.values.values():
            places = entry.place("metric"), entry.place("aggregation")
            found.append(_Listed(spec, *places, _remarks(entry, spec, output_type)))
    return found


def _remarks(entry: Section, spec: MetricSpec, output_type: str) -> tuple[str, ...]:
    """Keys that do nothing; lm-eval hands every key to the metric, and metrics of
    log-likelihoods take none."""
    if output_type == "generate_until" or spec.function is not None:
        return ()
    return tuple(
        f"{entry.place(key)}: {key!r} does nothing for {spec.name!r}{hint}"
        for key in spec.arguments
        if (hint := did_you_mean(str(key), _OWN_KEYS))
    )


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
        if missing in step.values.values():
            continue
        arguments = {k: v for k, v in step.values.items() if k != "function"}
        made = FilterStep(function=function, arguments=arguments)
        try:
            pipeline(name, [made])
        except EvalsError as error:
            step.problem("function", str(error))
        steps.append(made)
    listed = entry.values.get("filter")
    if not listed and len(entry.problems) == n_problems:
        fix = "filter: [{function: take_first}]"
        entry.problem("filter", f"the pipeline {name!r} has no filters", fix)
    if not steps or len(entry.problems) > n_problems:
        return None
    return pipeline(name, steps)
