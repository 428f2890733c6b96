"""Default filters and metrics of task classes (lm-eval 0.4.13, ``api/filter.py`` and
``api/task.py``, ``process_results``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from pytest_evals.core.doc import Doc
from pytest_evals.dialects.evaluate_library import find_metric
from pytest_evals.dialects.lm_eval.prompts.question import choice_at, gold_of
from pytest_evals.dialects.lm_eval.scoring.scorer import Scorer
from pytest_evals.dialects.lm_eval.shims.prompts import field_of
from pytest_evals.dialects.lm_eval.shims.registry import (
    aggregation_function,
    registered_filters,
)
from pytest_evals.scorers.filters import TAKE_FIRST, FilterStep, Pipeline, pipeline
from pytest_evals.scorers.metrics import METRICS, MetricSpec, default_metrics, direction

_OWN_KEYS = ("metric", "aggregation", "higher_is_better", "hf_evaluate")


class Ensemble:
    """A filter pipeline with lm-eval's interface."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.name, self._pipeline = pipeline.name, pipeline

    def apply(self, instances: Sequence[Any]) -> None:
        """Set the filtered response of each instance."""
        responses = [instance.resps for instance in instances]
        rows = [instance.doc for instance in instances]
        filtered = self._pipeline.apply_all(responses, rows)
        for instance, value in zip(instances, filtered, strict=True):
            instance.filtered_resps[self.name] = value


def ensembles(given: Sequence[Mapping[str, Any]] | None) -> list[Ensemble]:
    """The pipelines of a ``filter_list``."""
    if given is None:
        return [Ensemble(TAKE_FIRST)]
    return [
        Ensemble(pipeline(entry["name"], [_step(step) for step in entry["filter"]]))
        for entry in given
    ]


def _step(step: Mapping[str, Any]) -> FilterStep:
    function = step["function"]
    if isinstance(function, str):
        function = registered_filters.get(function, function)
    rest = {key: value for key, value in step.items() if key != "function"}
    return FilterStep(function=function, arguments=rest)


T = TypeVar("T")


class Scoring:
    """The metrics of a class's configuration."""

    def __init__(self, config: Any) -> None:
        """Read ``metric_list``. Names are looked up on first use, because a class with
        its own ``process_results`` may use any name."""
        self._config = config
        listed = config.metric_list
        if listed is None:
            self._specs = default_metrics(config.output_type)
        else:
            # Of two entries with one name, use the later one, as in lm-eval.
            by_name = {spec.name: spec for spec in map(_spec, listed)}
            self._specs = tuple(by_name.values())
        self._source_metrics: dict[str, str] = {}
        """Name that only a function's result contained → the metric of that
        function."""

    def values(self, task: Any, doc: Any, results: Sequence[Any]) -> dict[str, Any]:
        """The document's values by metric."""
        if self._config.output_type == "loglikelihood_rolling":
            return self._rolling(task, doc, results[0])
        document = _doc(task, doc, self._config.output_type)
        values = self._scorer.measured(document, tuple(results))
        for value in values:
            if value.lender and value.metric not in self._aggregations:
                self._source_metrics.setdefault(value.metric, value.lender)
        return {value.metric: value.value for value in values}

    @cached_property
    def _scorer(self) -> Scorer:
        specs = tuple(self._with_function(spec) for spec in self._specs)
        return Scorer(output_type=self._config.output_type, metrics=specs)

    def _with_function(self, spec: MetricSpec) -> MetricSpec:
        is_generation = self._config.output_type == "generate_until"
        by_name = {entry["metric"]: entry for entry in self._config.metric_list or ()}
        uses_hf_evaluate = by_name.get(spec.name, {}).get("hf_evaluate") is True
        if spec.function is not None or not is_generation:
            return spec
        if spec.name in METRICS and not uses_hf_evaluate:
            return spec
        function = find_metric(spec.name, [Path.cwd()])
        return MetricSpec(
            name=spec.name, function=function, arguments=dict(spec.arguments)
        )

    def _rolling(self, task: Any, doc: Any, logprob: float) -> dict[str, Any]:
        """Rolling log-likelihoods with the class's own counts of words and bytes."""
        text = task.doc_to_target(doc)
        n_words, n_bytes = task.count_words(text), task.count_bytes(text)
        sizes = {"word_perplexity": n_words, "byte_perplexity": n_bytes}
        sizes["bits_per_byte"] = n_bytes
        names = [spec.name for spec in self._specs if spec.name in sizes]
        return {name: (logprob, sizes[name]) for name in names}

    def aggregations(self) -> dict[str, Callable[[Any], Any]]:
        """Aggregation functions by metric, including names that only a function's
        result contained, as in lm-eval. Raises UnknownNameError if an aggregation is
        unknown."""
        return self._with_result_names(self._aggregations)

    def directions(self) -> dict[str, bool | None]:
        """Directions by metric."""
        return self._with_result_names(
            {spec.name: direction(spec) for spec in self._specs}
        )

    @cached_property
    def _aggregations(self) -> dict[str, Callable[[Any], Any]]:
        return {spec.name: _aggregation(spec) for spec in self._specs}

    def _with_result_names(self, known: Mapping[str, T]) -> dict[str, T]:
        others = {name: known[metric] for name, metric in self._source_metrics.items()}
        return {**known, **others}


def _aggregation(spec: MetricSpec) -> Callable[[Any], Any]:
    if callable(spec.aggregation):
        return spec.aggregation
    known = METRICS.get(spec.name)
    default = known.aggregation if known is not None else "mean"
    return aggregation_function(spec.aggregation or default)


def _spec(entry: Mapping[str, Any]) -> MetricSpec:
    given = entry["metric"]
    return MetricSpec(
        name=given if isinstance(given, str) else given.__name__,
        function=given if callable(given) else None,
        aggregation=entry.get("aggregation"),
        higher_is_better=entry.get("higher_is_better"),
        is_directed=entry.get("higher_is_better", True) is not None,
        arguments={k: v for k, v in entry.items() if k not in _OWN_KEYS},
    )


def _doc(task: Any, row: Any, output_type: str) -> Doc:
    """The document as metrics of its output type read it."""
    target = task.doc_to_target(row)
    if output_type == "loglikelihood":
        return Doc("", [target], 0, row=row, target=target)
    has_choices = task.config.doc_to_choice is not None
    choices = task.doc_to_choice(row) if has_choices else []
    of_target = field_of(task, "doc_to_target", target)
    if output_type == "multiple_choice":
        correct = task.doc_to_text(row) if task.multiple_input else target
        gold = gold_of(correct, choices, of_target)
        return Doc("", list(choices), gold, row=row, target=target)
    if has_choices:
        correct = choice_at(choices, target, of_target)
        return Doc("", [correct], 0, row=row, target=target)
    if task.multiple_target:
        texts = [str(item) for item in target]
        golds = list(range(len(texts)))
        return Doc("", texts, golds, row=row, target=list(target))
    return Doc("", [str(target)], 0, row=row, target=target)
