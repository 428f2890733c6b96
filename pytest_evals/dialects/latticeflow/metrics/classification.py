"""LatticeFlow's classification metrics: from the counts that scorers return, and from
labels.

Without counts, recall, precision and F1 are NaN if computed from counts, and 0 if
computed from labels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pytest_evals.core.metric import SHARE, Estimate, Ratio
from pytest_evals.dialects.latticeflow.metrics.measures import (
    Measure,
    Values,
    flatten,
    mean_measure,
    missing_message,
    named_values_measure,
    ratio_measure,
    sum_measure,
)

Pair = tuple[str, str]
"""Expected and predicted label."""


def count_ratio(
    name: str, hits: str, misses: Sequence[str], weight: int = 1
) -> Measure:
    """Return a ratio of hits to hits and misses, from the scorer's counts.

    Args:
        hits: Field with the true positives.
        misses: Fields with the other counts of the denominator.
        weight: Weight of the hits; 2 in F1.
    """
    fields = (hits, *misses)

    def read(values: Values) -> list[Any] | None:
        counts_or_scores = [values.get(field) for field in fields]
        return None if None in counts_or_scores else counts_or_scores

    def score(sums: Sequence[float]) -> float:
        below = weight * sums[0] + math.fsum(sums[1:])
        return weight * sums[0] / below if below else math.nan

    return ratio_measure(name, read, score, missing_message(*fields))


def binary(gold: str, predicted: str, positive: str, negative: str) -> list[Measure]:
    """Return all metrics of a binary classification. Samples in which a label is
    neither of the two are left out."""
    known = (positive, negative)
    message = (
        f"no sample has {positive!r} or {negative!r} as {gold!r} and as {predicted!r}"
    )

    def pair_of(values: Values) -> Pair | None:
        pair = _pair(values, gold, predicted)
        return pair if pair and pair[0] in known and pair[1] in known else None

    def cell(expected: str, answer: str) -> Callable[[Values], Any]:
        def read(values: Values) -> int | None:
            pair = pair_of(values)
            return None if pair is None else int(pair == (expected, answer))

        return read

    def ratio(name: str, weights: tuple[int, ...]) -> Measure:
        def read(values: Values) -> list[Any] | None:
            return None if pair_of(values) is None else [one(values) for one in cells]

        def score(sums: Sequence[float]) -> float:
            below = math.fsum(w * s for w, s in zip(weights, sums, strict=True))
            return weights[0] * sums[0] / below if below else 0.0

        hits = (weights[0], 0, 0)
        return ratio_measure(
            name, read, score, message, Ratio(above=hits, below=weights)
        )

    cells = (
        cell(positive, positive),
        cell(negative, positive),
        cell(positive, negative),
    )
    names = ("true_positives", "false_positives", "false_negatives")
    return [
        _accuracy(lambda values: _hit(pair_of(values)), message),
        ratio("precision", (1, 1, 0)),
        ratio("recall", (1, 0, 1)),
        ratio("f1_score", (2, 1, 1)),
        *(
            sum_measure(name, one, message)
            for name, one in zip(names, cells, strict=True)
        ),
        sum_measure("true_negatives", cell(negative, negative), message),
    ]


def multiclass(gold: str, predicted: str, name: str) -> list[Measure]:
    """Return accuracy, and precision, recall and F1 of each class and as unweighted
    means. A class that is never predicted, or never correct, has 0."""
    message = missing_message(gold, predicted)

    def read(values: Values) -> list[str] | None:
        pair = _pair(values, gold, predicted)
        return None if pair is None else list(pair)

    def several(values: Sequence[Any]) -> Mapping[str, Estimate]:
        pairs = [(one[0], one[1]) for one in flatten(values)]
        return {key: Estimate(number) for key, number in _by_class(pairs).items()}

    return [
        _accuracy(lambda values: _hit(_pair(values, gold, predicted)), message),
        named_values_measure(name, read, several, message),
    ]


def _accuracy(hit: Callable[[Values], int | None], message: str) -> Measure:
    return mean_measure("accuracy", hit, message, True, span=SHARE)


def _by_class(pairs: Sequence[Pair]) -> dict[str, float]:
    classes = sorted({label for pair in pairs for label in pair})
    counts_or_scores: dict[str, float] = {}
    sums = {"precision": 0.0, "recall": 0.0, "f1": 0.0}
    for label in classes:
        hits = pairs.count((label, label))
        golds = sum(pair[0] == label for pair in pairs)
        answers = sum(pair[1] == label for pair in pairs)
        of_class = {
            "precision": hits / answers if answers else 0.0,
            "recall": hits / golds if golds else 0.0,
            "f1": 2 * hits / (golds + answers),
        }
        for key, number in of_class.items():
            counts_or_scores[f"{label}_{key}"] = number
            sums[key] += number
    macro = {f"macro_{key}": total / len(classes) for key, total in sums.items()}
    return {**counts_or_scores, **macro}


def _pair(values: Values, gold: str, predicted: str) -> Pair | None:
    """Return both labels as text; ``None`` if one is missing."""
    expected, answer = values.get(gold), values.get(predicted)
    return None if expected is None or answer is None else (str(expected), str(answer))


def _hit(pair: Pair | None) -> int | None:
    return None if pair is None else int(pair[0] == pair[1])
