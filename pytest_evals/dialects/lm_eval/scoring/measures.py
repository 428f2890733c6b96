"""What a task's metrics say of one document: those that are known by name, those that
are computed from document and answers, or the task's own ``process_results``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pytest_evals.core.doc import Doc
from pytest_evals.core.registry import Registry
from pytest_evals.core.row import handed
from pytest_evals.errors import DocumentError
from pytest_evals.scorers.choices import measure_choices
from pytest_evals.scorers.measured import Measured
from pytest_evals.scorers.metrics import MetricSpec, is_measured
from pytest_evals.scorers.perplexity import measure_continuation, measure_rolling
from pytest_evals.scorers.text import shown, text_metric
from pytest_evals.scorers.user_code import UserCode

if TYPE_CHECKING:
    from pytest_evals.scorers.lighteval.computed import Computed
    from pytest_evals.scorers.lighteval.response import ModelResponse

ProcessResults = Callable[[dict[str, Any], list[Any]], Mapping[str, Any]]
"""A task's own scoring: row and filtered responses, one a request, to values by
metric."""
Measure = Callable[[Doc, tuple[Any, ...], "ModelResponse | None"], list[Measured]]
"""A document and its filtered responses, one a request, to what metrics say of it; with
the answers as computed metrics see them, where these are known."""

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


def measured_by(specs: Sequence[MetricSpec], output_type: str) -> Measure:
    """The metrics' own scoring of an output type, in the order of the metrics."""
    parts = [
        _computed(spec.computed, output_type)
        if spec.computed is not None
        else _known(output_type, spec)
        for spec in specs
    ]
    if all(spec.computed is None for spec in specs):
        parts = [_all_known(output_type, specs)]
    return lambda doc, filtered, response: [
        measured for part in parts for measured in part(doc, filtered, response)
    ]


def _computed(metric: Computed, output_type: str) -> Measure:
    from pytest_evals.scorers.lighteval.response import response_of

    return lambda doc, filtered, response: metric.measure(
        doc, response or response_of(output_type, filtered)
    )


def _known(output_type: str, spec: MetricSpec) -> Measure:
    return _all_known(output_type, (spec,))


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


def by_task(process_results: ProcessResults, output_type: str) -> Measure:
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
