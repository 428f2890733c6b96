"""Reads a scorer's ``metrics`` (``_READERS`` has all types), and a task's trials:
repeated solving of each sample, and the aggregation of their scores.

Without counts, recall, precision and F1 are NaN if computed from counts, and 0 if
computed from labels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pytest_evals.core.metric import SHARE, Estimate, Ratio
from pytest_evals.core.task import MOST_REPEATS
from pytest_evals.errors import DocumentError, suggestion
from pytest_evals.guests.latticeflow.fields import Keys, unique_name
from pytest_evals.guests.latticeflow.metrics import measures
from pytest_evals.guests.latticeflow.metrics.measures import Column, Read, ScorerValue
from pytest_evals.guests.latticeflow.prompts.output import SampleScore
from pytest_evals.guests.latticeflow.snippets import snippet_of
from pytest_evals.scorers.metric_value import plain

Pair = tuple[str, str]  # Expected and predicted label


def binary(
    gold: str, predicted: str, positive: str, negative: str
) -> list[ScorerValue]:
    """Return all metrics of a binary classification. Samples in which a label is
    neither of the two are left out."""
    missing = (
        f"no sample has {positive!r} or {negative!r} as {gold!r} and as {predicted!r}"
    )
    outcomes = {
        "true_positives": (positive, positive),
        "false_positives": (negative, positive),
        "false_negatives": (positive, negative),
        "true_negatives": (negative, negative),
    }

    def counted(*names: str) -> Callable[[SampleScore], list[int] | None]:
        """Return the reader of 1 for the sample's outcome and 0 for the others."""

        def read(score: SampleScore) -> list[int] | None:
            pair = _pair(score, gold, predicted)
            flags = [int(pair == outcomes[name]) for name in names]
            return flags if pair in outcomes.values() else None

        return read

    def total(*names: str) -> Read:
        """Return the reader of 1 for one of several outcomes."""
        read = counted(*names)
        return lambda score: None if (found := read(score)) is None else sum(found)

    def ratio(name: str, weights: tuple[int, ...]) -> ScorerValue:
        def value(sums: Sequence[float]) -> float:
            below = math.fsum(w * s for w, s in zip(weights, sums, strict=True))
            return weights[0] * sums[0] / below if below else 0.0

        above = Ratio(above=(weights[0], 0, 0), below=weights)
        column = Column(counted(*[*outcomes][:3]), missing)
        return measures.ratio_measure(name, column, value, above)

    return [
        _accuracy(total("true_positives", "true_negatives"), missing),
        ratio("precision", (1, 1, 0)),
        ratio("recall", (1, 0, 1)),
        ratio("f1_score", (2, 1, 1)),
        *(
            measures.number_measure(name, Column(total(name), missing), sum)
            for name in outcomes
        ),
    ]


def _accuracy(is_hit: Read, missing: str) -> ScorerValue:
    column = Column(is_hit, missing, higher_is_better=True)
    accuracy = measures.mean_measure("accuracy", column, SHARE)
    return replace(accuracy, is_correctness=True)


def _by_class(pairs: Sequence[Pair]) -> dict[str, float]:
    classes = sorted({label for pair in pairs for label in pair})
    by_class: dict[str, float] = {}
    for label in classes:
        hits = pairs.count((label, label))
        golds, answers = (sum(pair[n] == label for pair in pairs) for n in (0, 1))
        by_class[f"{label}_precision"] = hits / answers if answers else 0.0
        by_class[f"{label}_recall"] = hits / golds if golds else 0.0
        by_class[f"{label}_f1"] = 2 * hits / (golds + answers)
    macro = {
        f"macro_{key}": sum(by_class[f"{one}_{key}"] for one in classes) / len(classes)
        for key in ("precision", "recall", "f1")
    }
    return {**by_class, **macro}


def _pair(score: SampleScore, gold: str, predicted: str) -> Pair | None:
    expected, answer = score.get(gold), score.get(predicted)
    return None if expected is None or answer is None else (str(expected), str(answer))


Reader = Callable[[Keys, str], list[ScorerValue]]
"""Keys and key of a metric → its values."""

FREQUENCY = replace(measures.frequencies("label", "frequency"), metric="frequency")
"""Default metric of labelers."""


def means_of(scores: Sequence[str]) -> tuple[ScorerValue, ...]:
    """Return the means of scores, as default metrics."""
    names = {name: "accuracy" if name == "is_correct" else name for name in scores}
    return tuple(
        replace(measures.mean_measure(name, measures.column_of(field)), metric=name)
        for field, name in names.items()
    )


def read_metrics(section: Keys, warnings: list[str]) -> tuple[ScorerValue, ...]:
    """Return the metric values of a scorer, in the order of its metrics."""
    values: list[ScorerValue] = []
    keys: set[str] = set()
    for entry in section.entries("metrics"):
        kind = entry.values.get("type")
        given = entry.name("key")
        if given is not None:
            entry.check_key("a metric")
        key = unique_name(given or str(kind), [*keys])
        found = entry.typed("metric", "a metric", _READERS, key)
        if given is not None and key != given:
            entry.problem("key", f"duplicate metric {given!r}")
        elif key != (given or kind):
            warnings.append(
                f"{entry.place('type')}: several metrics of type {kind} have no key; "
                f"this one is named {key!r}"
            )
        keys.add(key)
        values += [replace(one, metric=key) for one in found]
    return tuple(values)


def _field(entry: Keys, key: str = "field") -> str:
    return entry.required_text(key, "is_correct")


def _of_field(make: Callable[[str, Column], ScorerValue], ending: str) -> Reader:
    def read(entry: Keys, key: str) -> list[ScorerValue]:
        field = _field(entry)
        name = entry.text("name") or f"{field}_{ending}"
        return [make(name, measures.column_of(field))]

    return read


def _extreme(which: Callable[[Sequence[float]], float]) -> Reader:
    def value(numbers: Sequence[float]) -> float:
        return math.nan if any(map(math.isnan, numbers)) else which(numbers)

    return _of_field(partial(measures.number_measure, value=value), which.__name__)


def _standard_deviation(name: str, column: Column) -> ScorerValue:
    # The direction of the score is not that of its deviation.
    column = column._replace(higher_is_better=None, field="")
    return measures.number_measure(name, column, _deviation)


def _deviation(numbers: Sequence[float]) -> float:
    """Return the sample standard deviation (n - 1, as in the documentation's example);
    0 for a single value."""
    n = len(numbers)
    if n < 2:
        return 0.0
    centre = math.fsum(numbers) / n
    return math.sqrt(math.fsum((x - centre) ** 2 for x in numbers) / (n - 1))


def _weighted(entry: Keys, key: str) -> list[ScorerValue]:
    """Read the mean weight of a label; a label without a weight is an error."""
    field = _field(entry)
    name = entry.text("name") or f"{field}_weighted_average"
    weights: dict[str, float] = {}
    given = entry.take("weights", dict, {})
    if not given:
        entry.problem("weights", "weights is missing", "weights: {GOOD: 1, BAD: 0}")
    for label, weight in given.items():
        number = None if isinstance(weight, bool) else measures.number_of(weight)
        if number is None:
            message = f"the weight of {label!r} must be a number, not {weight!r}"
            entry.problem("weights", message)
        else:
            weights[str(label)] = number

    def read(score: SampleScore) -> Any:
        label = score.get(field)
        return None if label is None else weights.get(str(label), str(label))

    def invalid(label: Any) -> str:
        known = suggestion(label, list(weights))
        return f"the label {label!r} of {field!r} has no weight{known}"

    column = Column(read, measures.missing_message(field), invalid)
    return [measures.mean_measure(name, column)]


def _counts(own_name: str, misses: Sequence[str], weight: int = 1) -> Reader:
    """Return the reader of a ratio of hits to hits and misses, from the scorer's
    counts. ``weight``: weight of the hits; 2 in F1."""

    def read(entry: Keys, key: str) -> list[ScorerValue]:
        fields = [_field(entry, one) for one in ("num_true_positives_field", *misses)]
        name = entry.text("name") or own_name

        def counts(score: SampleScore) -> list[Any] | None:
            found = [score.get(field) for field in fields]
            return None if None in found else found

        def value(sums: Sequence[float]) -> float:
            below = weight * sums[0] + math.fsum(sums[1:])
            return weight * sums[0] / below if below else math.nan

        column = Column(counts, measures.missing_message(*fields))
        return [measures.ratio_measure(name, column, value)]

    return read


def _binary(entry: Keys, key: str) -> list[ScorerValue]:
    gold, predicted = _field(entry, "field_gt"), _field(entry, "field_pred")
    positive = entry.required_text("positive_answer", "yes")
    negative = entry.required_text("negative_answer", "no")
    if positive and positive == negative:
        message = f"positive_answer and negative_answer are both {positive!r}"
        entry.problem("negative_answer", message)
    return binary(gold, predicted, positive, negative)


def _multiclass(entry: Keys, key: str) -> list[ScorerValue]:
    """Read accuracy, and precision, recall and F1 of each class and as unweighted
    means. A class that is never predicted, or never correct, has 0."""
    gold, predicted = _field(entry, "field_gt"), _field(entry, "field_pred")
    missing = measures.missing_message(gold, predicted)

    def read(score: SampleScore) -> list[str] | None:
        pair = _pair(score, gold, predicted)
        return None if pair is None else list(pair)

    def is_hit(score: SampleScore) -> int | None:
        pair = read(score)
        return None if pair is None else int(pair[0] == pair[1])

    def several(values: Sequence[Any]) -> Mapping[str, Estimate]:
        pairs = [(one[0], one[1]) for one in measures.flatten(values)]
        return {name: Estimate(number) for name, number in _by_class(pairs).items()}

    return [
        _accuracy(is_hit, missing),
        measures.named_values_measure(key, Column(read, missing), several),
    ]


def _python(entry: Keys, key: str) -> list[ScorerValue]:
    function = snippet_of(entry, "compute_metrics_snippet", "compute_metrics")

    def read(given: Any) -> dict[str, Estimate]:
        given, fix = plain(given), 'return {"my_number": 0.5}'
        function.expect(isinstance(given, Mapping), "numbers by name", given, fix)
        for name, value in given.items():
            if not isinstance(name, str) or measures.number_of(value) is None:
                message = f"must return numbers, not {name!r}: {value!r:.80}"
                raise function.invalid_return(message, fix)
        return {name: Estimate(float(value)) for name, value in given.items()}

    def several(values: Sequence[Any]) -> Mapping[str, Estimate]:
        scores = [SampleScore(*one) for one in measures.flatten(values)]
        return function.read(read, scores)

    missing = "no sample has scores"
    column = Column(lambda score: [score.values, score.metadata], missing)
    return [measures.named_values_measure(key, column, several)]


_POSITIVES, _NEGATIVES = "num_false_positives_field", "num_false_negatives_field"
_READERS: Mapping[str, Reader] = {
    "binary-classification": _binary,
    "f1_score": _counts("f1_score", [_POSITIVES, _NEGATIVES], weight=2),
    "frequency": lambda entry, key: [measures.frequencies(_field(entry), key)],
    "max": _extreme(max),
    "mean": _of_field(measures.mean_measure, "mean"),
    "min": _extreme(min),
    "multiclass-classification": _multiclass,
    "precision": _counts("precision", [_POSITIVES]),
    "python": _python,
    "recall": _counts("recall", [_NEGATIVES]),
    "std_dev": _of_field(_standard_deviation, "std_dev"),
    "weighted_average": _weighted,
}

FUNCTIONS = ("mean", "min", "max", "pass@k", "pass^k")


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregator:
    """Aggregates one score over trials."""

    score: str
    function: str  # one of FUNCTIONS
    result: str  # name of the result: is_correct.pass@3
    k: int = 1  # attempts of pass@k and pass^k; may exceed the number of trials

    def aggregate(self, values: Sequence[float]) -> float:
        """Return the aggregate of all trials. ``pass@k`` and ``pass^k`` need values of
        0 or 1."""
        if self.function in ("min", "max"):
            return float(min(values) if self.function == "min" else max(values))
        share = sum(values) / len(values)
        if self.function == "mean":
            return share
        if any(value not in (0, 1) for value in values):
            raise DocumentError(
                f"{self.function} needs values of 0 or 1, but {self.score!r} is "
                f"{next(v for v in values if v not in (0, 1))!r}"
            )
        if self.function == "pass^k":
            return float(share**self.k)
        return 1.0 - float((1 - share) ** self.k)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trials:
    """Repeated solving of each sample. ``n``: number of trials, at least 2."""

    n: int
    aggregators: tuple[Aggregator, ...] = ()

    def aggregate(self, scores: Sequence[SampleScore]) -> SampleScore:
        """Return the aggregate of all trials' scores.

        A score without an aggregator has its mean, as ``x.mean``; text values are left
        out. A score's own name also refers to its mean, so metrics can use either.
        """
        numbers: dict[str, list[float]] = {}
        for one in scores:
            for name, value in one.values.items():
                number = measures.number_of(value)
                if number is not None:
                    numbers.setdefault(name, []).append(number)
        results: dict[str, Any] = {}
        for name, values in numbers.items():
            aggregators = [one for one in self.aggregators if one.score == name]
            for aggregator in aggregators:
                results[aggregator.result] = aggregator.aggregate(values)
            if not aggregators:
                results[f"{name}.mean"] = sum(values) / len(values)
        for name, values in numbers.items():
            results.setdefault(name, sum(values) / len(values))
        metadata: Mapping[str, Any] = {"trials": [one.to_dict() for one in scores]}
        return SampleScore(results, metadata)


def read_trials(section: Keys) -> Trials:
    """Return the trials of a task."""
    section.need("num_trials", "3")
    n = section.whole("num_trials", 2, 2, MOST_REPEATS)
    aggregators = tuple(map(_read_aggregator, section.entries("score_aggregators")))
    section.close("trials")
    return Trials(n=n, aggregators=aggregators)


def _read_aggregator(entry: Keys) -> Aggregator:
    score = entry.required_text("score_name", "is_correct")
    inner = entry.required_section("aggregator", "{function: mean}")
    entry.close("an entry of score_aggregators")
    function, k = inner.one_of("function", "function", FUNCTIONS, ""), 1
    if not function.startswith("pass"):
        inner.refuse("k", f"{function} does not use it")
    elif inner.need("k", "3", f"{function} needs k"):
        k = inner.whole("k", 1, 1)
    ending = f"{function[:-1]}{k}" if function.startswith("pass") else function
    result = inner.text("score_name") or f"{score}.{ending}"
    inner.close("an aggregator")
    return Aggregator(score=score, function=function, k=k, result=result)
