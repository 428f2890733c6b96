"""Reads a scorer's ``metrics``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from pytest_evals.core.metric import SHARE, Estimate
from pytest_evals.dialects.latticeflow.header import check_key
from pytest_evals.dialects.latticeflow.metric_values import NOTHING, ScorerValue
from pytest_evals.dialects.latticeflow.metrics.classification import (
    binary,
    count_ratio,
    multiclass,
)
from pytest_evals.dialects.latticeflow.metrics.measures import (
    Measure,
    extreme,
    flatten,
    frequencies,
    mean_field,
    named_values_measure,
    number_of,
    standard_deviation,
    weighted_label,
)
from pytest_evals.dialects.latticeflow.prompts.scores import SampleScore
from pytest_evals.dialects.latticeflow.snippets.snippet import (
    SnippetFunction,
    snippet_of,
)
from pytest_evals.dialects.latticeflow.solvers.template_fields import required_text
from pytest_evals.dialects.yaml_reader.section import Section
from pytest_evals.scorers.metric_value import plain

_CORRECT = frozenset({"all_required_calls_made", "correct", "is_correct"})
"""Scores that mark an answer as correct."""


def default_metric_values(
    kind: str, scorer: str, scores: Sequence[str]
) -> tuple[ScorerValue, ...]:
    """Return the metric values of a scorer without ``metrics``."""
    if kind in _ACCURATE:
        measure = mean_field("is_correct", "accuracy", SHARE)
        return (_metric_value(scorer, "accuracy", measure, True),)
    if kind == "labeler_via_model":
        return (_metric_value(scorer, "frequency", frequencies("label", "frequency")),)
    return tuple(
        replace(
            _metric_value(scorer, name, mean_field(name, name), name in _CORRECT),
            field=name,
        )
        for name in _DEFAULTS.get(kind, scores)
    )


_SCALED = ("max", "mean", "min")
"""Metrics on the same scale as the score that they aggregate."""
_ACCURATE = ("string_equals", "string_equals_mcqa", "model_as_a_judge_classifier")
_DEFAULTS: Mapping[str, Sequence[str]] = {
    "bleu": ("bleu_score",),
    "model_as_a_judge_scorer": ("score",),
    "function_call_coverage": ("all_required_calls_made", "required_calls_coverage"),
}


def read_metrics(
    section: Section, scorer: str, warnings: list[str]
) -> tuple[ScorerValue, ...]:
    """Return the metric values of a scorer, in the order of its metrics."""
    result: list[ScorerValue] = []
    keys: set[str] = set()
    for entry in section.entries("metrics"):
        kind = entry.one_of("type", "metric", sorted(_READERS), "")
        given = entry.name("key")
        if given is not None:
            check_key(entry, "a metric")
        if not kind:
            continue
        key = _unique_key(given or kind, keys)
        if given is not None and key != given:
            entry.problem("key", f"duplicate metric {given!r}")
        elif key != (given or kind):
            place = entry.place("type")
            warnings.append(
                f"{place}: several metrics of type {kind} have no key; this "
                f"one is named {key!r}"
            )
        keys.add(key)
        measures = _READERS[kind](entry, key)
        entry.close(f"a metric of type {kind}")
        field = str(entry.values.get("field")) if kind in _SCALED else ""
        for one in measures:
            by_labels = one.name == "accuracy" and kind.endswith("-classification")
            is_correctness = (kind == "mean" and field in _CORRECT) or by_labels
            value = replace(
                _metric_value(scorer, key, one, is_correctness), field=field
            )
            result.append(
                replace(value, read=_values_and_metadata) if kind == "python" else value
            )
    return tuple(result)


def _unique_key(base: str, taken: set[str]) -> str:
    names = [base, *(f"{base}_{n}" for n in range(2, len(taken) + 3))]
    return next(name for name in names if name not in taken)


def _metric_value(
    scorer: str, metric: str, measure: Measure, is_correctness: bool = False
) -> ScorerValue:
    return ScorerValue(
        scorer=scorer,
        metric=metric,
        name=measure.name,
        read=partial(_read, measure),
        how=measure.how,
        later=measure.later,
        is_correctness=is_correctness,
    )


def _read(measure: Measure, score: SampleScore) -> Any:
    result = measure.read(score.values)
    return NOTHING if result is None else result


def _values_and_metadata(score: SampleScore) -> list[Any]:
    """Return a score as snippets receive it."""
    return [score.values, score.metadata]


Reader = Callable[[Section, str], list[Measure]]


def _field(entry: Section, key: str = "field") -> str:
    return required_text(entry, key, "is_correct")


def _field_reader(make: Callable[[str, str], Measure], ending: str) -> Reader:
    def read(entry: Section, key: str) -> list[Measure]:
        field = _field(entry)
        return [make(field, entry.text("name") or f"{field}_{ending}")]

    return read


def _frequency(entry: Section, key: str) -> list[Measure]:
    return [frequencies(_field(entry), key)]


def _weighted(entry: Section, key: str) -> list[Measure]:
    field = _field(entry)
    name = entry.text("name") or f"{field}_weighted_average"
    weights: dict[str, float] = {}
    given = entry.take("weights", dict, {})
    if not given:
        entry.problem("weights", "weights is missing", "weights: {GOOD: 1, BAD: 0}")
    for label, weight in given.items():
        value_ = None if isinstance(weight, bool) else number_of(weight)
        if value_ is None:
            entry.problem(
                "weights", f"the weight of {label!r} must be a number, not {weight!r}"
            )
        else:
            weights[str(label)] = value_
    return [weighted_label(field, name, weights)]


def _counts(name: str, misses: Sequence[str], weight: int = 1) -> Reader:
    def read(entry: Section, key: str) -> list[Measure]:
        hits = _field(entry, "num_true_positives_field")
        others = [_field(entry, field) for field in misses]
        return [count_ratio(entry.text("name") or name, hits, others, weight)]

    return read


def _binary(entry: Section, key: str) -> list[Measure]:
    gold, predicted = _field(entry, "field_gt"), _field(entry, "field_pred")
    positive = required_text(entry, "positive_answer", "yes")
    negative = required_text(entry, "negative_answer", "no")
    if positive and positive == negative:
        what = f"positive_answer and negative_answer are both {positive!r}"
        entry.problem("negative_answer", what)
    return binary(gold, predicted, positive, negative)


def _multiclass(entry: Section, key: str) -> list[Measure]:
    return multiclass(_field(entry, "field_gt"), _field(entry, "field_pred"), key)


def _python(entry: Section, key: str) -> list[Measure]:
    function = snippet_of(entry, "compute_metrics_snippet", "compute_metrics")
    if function is None:
        return []

    def several(values: Sequence[Any]) -> Mapping[str, Estimate]:
        scores = [SampleScore(*one) for one in flatten(values)]
        return function.read(lambda given: _snippet_values(given, function), scores)

    return [named_values_measure(key, dict, several, "no sample has scores")]


def _snippet_values(given: Any, function: SnippetFunction) -> dict[str, Estimate]:
    """Return the metric values that a snippet returned, by name."""
    given = plain(given)
    fix = 'return {"my_number": 0.5}'
    if not isinstance(given, Mapping):
        raise function.invalid_return(
            f"must return numbers by name, not {given!r:.80}", fix
        )
    for name, value in given.items():
        if not isinstance(name, str) or number_of(value) is None:
            raise function.invalid_return(
                f"must return numbers, not {name!r}: {value!r:.80}", fix
            )
    return {name: Estimate(float(value)) for name, value in given.items()}


_POSITIVES, _NEGATIVES = "num_false_positives_field", "num_false_negatives_field"
_READERS: Mapping[str, Reader] = {
    "mean": _field_reader(mean_field, "mean"),
    "max": _field_reader(lambda field, name: extreme(field, name, max), "max"),
    "min": _field_reader(lambda field, name: extreme(field, name, min), "min"),
    "std_dev": _field_reader(standard_deviation, "std_dev"),
    "frequency": _frequency,
    "weighted_average": _weighted,
    "recall": _counts("recall", [_NEGATIVES]),
    "precision": _counts("precision", [_POSITIVES]),
    "f1_score": _counts("f1_score", [_POSITIVES, _NEGATIVES], weight=2),
    "binary-classification": _binary,
    "multiclass-classification": _multiclass,
    "python": _python,
}
