"""Reads a scorer's ``metrics``; ``_READERS`` has all types."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_evals.core.metric import SHARE, Estimate
from pytest_evals.dialects.yaml_reader.section import Section
from pytest_evals.guests.latticeflow.fields import (
    check_key,
    read_typed,
    required_text,
    unique_name,
)
from pytest_evals.guests.latticeflow.metrics.classification import (
    binary,
    count_ratio,
    multiclass,
)
from pytest_evals.guests.latticeflow.metrics.measures import (
    extreme,
    flatten,
    frequencies,
    mean_field,
    named_values_measure,
    number_of,
    standard_deviation,
    weighted_label,
)
from pytest_evals.guests.latticeflow.metrics.value import ScorerValue
from pytest_evals.guests.latticeflow.prompts.output import SampleScore
from pytest_evals.guests.latticeflow.snippets.snippet import (
    SnippetFunction,
    snippet_of,
)
from pytest_evals.scorers.metric_value import plain

_CORRECT = frozenset({"all_required_calls_made", "correct", "is_correct"})
"""Scores that mark an answer as correct."""
_SCALED = ("max", "mean", "min")
"""Metrics on the same scale as the score that they aggregate."""
Reader = Callable[[Section, str], list[ScorerValue]]
"""Section and key of a metric → its values."""

ACCURACY = replace(
    mean_field("is_correct", "accuracy", SHARE), metric="accuracy", is_correctness=True
)
"""Default metric of scorers that decide whether an answer is correct."""
FREQUENCY = replace(frequencies("label", "frequency"), metric="frequency")
"""Default metric of labelers."""


def means_of(scores: Sequence[str]) -> tuple[ScorerValue, ...]:
    """Return the means of scores, as default metrics."""
    return tuple(
        replace(
            mean_field(name, name),
            metric=name,
            field=name,
            is_correctness=name in _CORRECT,
        )
        for name in scores
    )


def read_metrics(section: Section, warnings: list[str]) -> tuple[ScorerValue, ...]:
    """Return the metric values of a scorer, in the order of its metrics."""
    values: list[ScorerValue] = []
    keys: set[str] = set()
    for entry in section.entries("metrics"):
        kind = entry.values.get("type")
        given = entry.name("key")
        if given is not None:
            check_key(entry, "a metric")
        key = unique_name(given or str(kind), [*keys])
        found = read_typed(entry, "metric", "a metric", _READERS, key)
        if found is None:
            continue
        if given is not None and key != given:
            entry.problem("key", f"duplicate metric {given!r}")
        elif key != (given or kind):
            warnings.append(
                f"{entry.place('type')}: several metrics of type {kind} have no key; "
                f"this one is named {key!r}"
            )
        keys.add(key)
        field = str(entry.values.get("field")) if kind in _SCALED else ""
        for one in found:
            by_labels = one.name == "accuracy" and str(kind).endswith("-classification")
            is_correctness = (kind == "mean" and field in _CORRECT) or by_labels
            values.append(
                replace(one, metric=key, field=field, is_correctness=is_correctness)
            )
    return tuple(values)


def _field(entry: Section, key: str = "field") -> str:
    return required_text(entry, key, "is_correct")


def _of_field(make: Callable[[str, str], ScorerValue], ending: str) -> Reader:
    def read(entry: Section, key: str) -> list[ScorerValue]:
        field = _field(entry)
        return [make(field, entry.text("name") or f"{field}_{ending}")]

    return read


def _frequency(entry: Section, key: str) -> list[ScorerValue]:
    return [frequencies(_field(entry), key)]


def _weighted(entry: Section, key: str) -> list[ScorerValue]:
    field = _field(entry)
    name = entry.text("name") or f"{field}_weighted_average"
    weights: dict[str, float] = {}
    given = entry.take("weights", dict, {})
    if not given:
        entry.problem("weights", "weights is missing", "weights: {GOOD: 1, BAD: 0}")
    for label, weight in given.items():
        number = None if isinstance(weight, bool) else number_of(weight)
        if number is None:
            what = f"the weight of {label!r} must be a number, not {weight!r}"
            entry.problem("weights", what)
        else:
            weights[str(label)] = number
    return [weighted_label(field, name, weights)]


def _counts(name: str, misses: Sequence[str], weight: int = 1) -> Reader:
    def read(entry: Section, key: str) -> list[ScorerValue]:
        hits = _field(entry, "num_true_positives_field")
        others = [_field(entry, field) for field in misses]
        return [count_ratio(entry.text("name") or name, hits, others, weight)]

    return read


def _binary(entry: Section, key: str) -> list[ScorerValue]:
    gold, predicted = _field(entry, "field_gt"), _field(entry, "field_pred")
    positive = required_text(entry, "positive_answer", "yes")
    negative = required_text(entry, "negative_answer", "no")
    if positive and positive == negative:
        what = f"positive_answer and negative_answer are both {positive!r}"
        entry.problem("negative_answer", what)
    return binary(gold, predicted, positive, negative)


def _multiclass(entry: Section, key: str) -> list[ScorerValue]:
    return multiclass(_field(entry, "field_gt"), _field(entry, "field_pred"), key)


def _python(entry: Section, key: str) -> list[ScorerValue]:
    function = snippet_of(entry, "compute_metrics_snippet", "compute_metrics")
    if function is None:
        return []

    def several(values: Sequence[Any]) -> Mapping[str, Estimate]:
        scores = [SampleScore(*one) for one in flatten(values)]
        return function.read(lambda given: _estimates(given, function), scores)

    def read(score: SampleScore) -> list[Any]:
        return [score.values, score.metadata]

    return [named_values_measure(key, read, several, "no sample has scores")]


def _estimates(given: Any, function: SnippetFunction) -> dict[str, Estimate]:
    """Return the metric values that a snippet returned, by name."""
    given = plain(given)
    fix = 'return {"my_number": 0.5}'
    if not isinstance(given, Mapping):
        what = f"must return numbers by name, not {given!r:.80}"
        raise function.invalid_return(what, fix)
    for name, value in given.items():
        if not isinstance(name, str) or number_of(value) is None:
            what = f"must return numbers, not {name!r}: {value!r:.80}"
            raise function.invalid_return(what, fix)
    return {name: Estimate(float(value)) for name, value in given.items()}


_POSITIVES, _NEGATIVES = "num_false_positives_field", "num_false_negatives_field"
_READERS: Mapping[str, Reader] = {
    "binary-classification": _binary,
    "f1_score": _counts("f1_score", [_POSITIVES, _NEGATIVES], weight=2),
    "frequency": _frequency,
    "max": _of_field(lambda field, name: extreme(field, name, max), "max"),
    "mean": _of_field(mean_field, "mean"),
    "min": _of_field(lambda field, name: extreme(field, name, min), "min"),
    "multiclass-classification": _multiclass,
    "precision": _counts("precision", [_POSITIVES]),
    "python": _python,
    "recall": _counts("recall", [_NEGATIVES]),
    "std_dev": _of_field(standard_deviation, "std_dev"),
    "weighted_average": _weighted,
}
