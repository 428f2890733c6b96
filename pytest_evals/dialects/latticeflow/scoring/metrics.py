"""From a scorer's ``metrics`` to its numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from pytest_evals.core.metric import SHARE, Estimate
from pytest_evals.dialects.latticeflow.header import check_key
from pytest_evals.dialects.latticeflow.metrics.classification import (
    binary,
    multiclass,
    of_counts,
)
from pytest_evals.dialects.latticeflow.metrics.measures import (
    Measure,
    extreme_of,
    frequency_of,
    mean_of,
    several_of,
    spread_of,
    weighted_of,
)
from pytest_evals.dialects.latticeflow.metrics.rows import flat, number_of
from pytest_evals.dialects.latticeflow.prompts.scores import SampleScore
from pytest_evals.dialects.latticeflow.snippets.snippet import (
    SnippetFunction,
    snippet_of,
)
from pytest_evals.dialects.latticeflow.solvers.template_fields import required_text
from pytest_evals.dialects.latticeflow.task_metrics import NOTHING, Number
from pytest_evals.dialects.yaml_reader.section import Section
from pytest_evals.scorers.metric_value import plain

_CORRECT = frozenset({"all_required_calls_made", "correct", "is_correct"})
"""Scores that tell right from wrong."""


def default_numbers(
    kind: str, scorer: str, scores: Sequence[str]
) -> tuple[Number, ...]:
    """The numbers of a scorer whose section says nothing of metrics.

    Args:
        kind: Its type.
        scorer: Its key.
        scores: Names of its scores.
    """
    if kind in _ACCURATE:
        measure = mean_of("is_correct", "accuracy", SHARE)
        return (_number(scorer, "accuracy", measure, True),)
    if kind == "labeler_via_model":
        return (_number(scorer, "frequency", frequency_of("label", "frequency")),)
    return tuple(
        replace(
            _number(scorer, name, mean_of(name, name), name in _CORRECT), field=name
        )
        for name in _DEFAULTS.get(kind, scores)
    )


_SCALED = ("max", "mean", "min")
"""Metrics on the scale of the score that they read."""
_ACCURATE = ("string_equals", "string_equals_mcqa", "model_as_a_judge_classifier")
_DEFAULTS: Mapping[str, Sequence[str]] = {
    "bleu": ("bleu_score",),
    "model_as_a_judge_scorer": ("score",),
    "function_call_coverage": ("all_required_calls_made", "required_calls_coverage"),
}


def read_metrics(
    section: Section, scorer: str, warnings: list[str]
) -> tuple[Number, ...]:
    """The numbers of a scorer, in the order of its metrics.

    Args:
        section: The scorer.
        scorer: Its key.
        warnings: What is odd is added here.
    """
    found: list[Number] = []
    keys: set[str] = set()
    for entry in section.entries("metrics"):
        kind = entry.one_of("type", "metric", sorted(_READERS), "")
        given = entry.name("key")
        if given is not None:
            check_key(entry, "key", "a metric")
        if not kind:
            continue
        key = _free(given or kind, keys)
        if given is not None and key != given:
            entry.problem("key", f"there is another metric called {given!r}")
        elif key != (given or kind):
            place = entry.place("type")
            warnings.append(
                f"{place}: there is another metric of type {kind} without a key; this "
                f"one is called {key!r}"
            )
        keys.add(key)
        measures = _READERS[kind](entry, key)
        entry.close(f"a metric of type {kind}")
        field = str(entry.values.get("field")) if kind in _SCALED else ""
        for one in measures:
            by_labels = one.name == "accuracy" and kind.endswith("-classification")
            tells = (kind == "mean" and field in _CORRECT) or by_labels
            number = replace(_number(scorer, key, one, tells), field=field)
            found.append(replace(number, read=_whole) if kind == "python" else number)
    return tuple(found)


def _free(wanted: str, taken: set[str]) -> str:
    names = [wanted, *(f"{wanted}_{n}" for n in range(2, len(taken) + 3))]
    return next(name for name in names if name not in taken)


def _number(
    scorer: str, metric: str, measure: Measure, tells_right: bool = False
) -> Number:
    return Number(
        scorer=scorer,
        metric=metric,
        name=measure.name,
        read=partial(_read, measure),
        how=measure.how,
        later=measure.later,
        tells_right=tells_right,
    )


def _read(measure: Measure, score: SampleScore) -> Any:
    found = measure.read(score.values)
    return NOTHING if found is None else found


def _whole(score: SampleScore) -> list[Any]:
    """What a snippet sees of a score."""
    return [score.values, score.metadata]


Reader = Callable[[Section, str], list[Measure]]


def _field(entry: Section, key: str = "field") -> str:
    return required_text(entry, key, "is_correct")


def _named(make: Callable[[str, str], Measure], ending: str) -> Reader:
    def read(entry: Section, key: str) -> list[Measure]:
        field = _field(entry)
        return [make(field, entry.text("name") or f"{field}_{ending}")]

    return read


def _frequency(entry: Section, key: str) -> list[Measure]:
    return [frequency_of(_field(entry), key)]


def _weighted(entry: Section, key: str) -> list[Measure]:
    field = _field(entry)
    name = entry.text("name") or f"{field}_weighted_average"
    weights: dict[str, float] = {}
    given = entry.take("weights", dict, {})
    if not given:
        entry.problem("weights", "weights is missing", "weights: {GOOD: 1, BAD: 0}")
    for label, weight in given.items():
        number = None if isinstance(weight, bool) else number_of(weight)
        if number is None:
            entry.problem(
                "weights", f"the weight of {label!r} is a number, not {weight!r}"
            )
        else:
            weights[str(label)] = number
    return [weighted_of(field, name, weights)]


def _counts(name: str, misses: Sequence[str], weight: int = 1) -> Reader:
    def read(entry: Section, key: str) -> list[Measure]:
        hits = _field(entry, "num_true_positives_field")
        others = [_field(entry, field) for field in misses]
        return [of_counts(entry.text("name") or name, hits, others, weight)]

    return read


def _binary(entry: Section, key: str) -> list[Measure]:
    gold, said = _field(entry, "field_gt"), _field(entry, "field_pred")
    positive = required_text(entry, "positive_answer", "yes")
    negative = required_text(entry, "negative_answer", "no")
    if positive and positive == negative:
        what = f"both answers are {positive!r}"
        entry.problem("negative_answer", what)
    return binary(gold, said, positive, negative)


def _multiclass(entry: Section, key: str) -> list[Measure]:
    return multiclass(_field(entry, "field_gt"), _field(entry, "field_pred"), key)


def _python(entry: Section, key: str) -> list[Measure]:
    function = snippet_of(entry, "compute_metrics_snippet", "compute_metrics")
    if function is None:
        return []

    def several(values: Sequence[Any]) -> Mapping[str, Estimate]:
        scores = [SampleScore(*one) for one in flat(values)]
        return function.read(lambda given: _returned(given, function), scores)

    return [several_of(key, dict, several, "no sample has scores")]


def _returned(given: Any, function: SnippetFunction) -> dict[str, Estimate]:
    """What a snippet returned: numbers by name.

    Raises:
        DocumentError: It returned something else.
    """
    given = plain(given)
    fix = 'return {"my_number": 0.5}'
    if not isinstance(given, Mapping):
        raise function.refused(f"returns numbers by name, not {given!r:.80}", fix)
    for name, value in given.items():
        if not isinstance(name, str) or number_of(value) is None:
            raise function.refused(f"returns {name!r}: {value!r:.80}, no number", fix)
    return {name: Estimate(float(value)) for name, value in given.items()}


_POSITIVES, _NEGATIVES = "num_false_positives_field", "num_false_negatives_field"
_READERS: Mapping[str, Reader] = {
    "mean": _named(mean_of, "mean"),
    "max": _named(lambda field, name: extreme_of(field, name, max), "max"),
    "min": _named(lambda field, name: extreme_of(field, name, min), "min"),
    "std_dev": _named(spread_of, "std_dev"),
    "frequency": _frequency,
    "weighted_average": _weighted,
    "recall": _counts("recall", [_NEGATIVES]),
    "precision": _counts("precision", [_POSITIVES]),
    "f1_score": _counts("f1_score", [_POSITIVES, _NEGATIVES], weight=2),
    "binary-classification": _binary,
    "multiclass-classification": _multiclass,
    "python": _python,
}
