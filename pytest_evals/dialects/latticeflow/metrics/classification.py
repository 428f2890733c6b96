"""LatticeFlow's metrics of right and wrong answers: of counts that scorers give, and of
the labels of classifications.

Where counts are lacking: recall, precision and F1 of counts are NaN, those of labels 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pytest_evals.core.metric import SHARE, Estimate, Ratio
from pytest_evals.dialects.latticeflow.metrics.measures import (
    Measure,
    lacking,
    mean_measure,
    ratio_of,
    several_of,
    sum_of,
)
from pytest_evals.dialects.latticeflow.metrics.rows import Values, flat

Pair = tuple[str, str]
"""What is right, and what was said."""


def of_counts(name: str, hits: str, misses: Sequence[str], weight: int = 1) -> Measure:
    """Hits over hits and misses, of counts that the scorer gives.

    Args:
        name: Of the number.
        hits: Field with the true positives.
        misses: Fields with what else counts below the line.
        weight: How often hits count; twice in F1.
    """
    fields = (hits, *misses)

    def read(values: Values) -> list[Any] | None:
        found = [values.get(field) for field in fields]
        return None if None in found else found

    def score(sums: Sequence[float]) -> float:
        below = weight * sums[0] + math.fsum(sums[1:])
        return weight * sums[0] / below if below else math.nan

    return ratio_of(name, read, score, lacking(*fields))


def binary(gold: str, said: str, positive: str, negative: str) -> list[Measure]:
    """All numbers of a classification with two answers; samples in which either is
    neither of them do not count."""
    known = (positive, negative)
    lack = f"no sample has {positive!r} or {negative!r} as {gold!r} and as {said!r}"

    def pair_of(values: Values) -> Pair | None:
        pair = _pair(values, gold, said)
        return pair if pair and pair[0] in known and pair[1] in known else None

    def cell(right: str, answer: str) -> Callable[[Values], Any]:
        def read(values: Values) -> int | None:
            pair = pair_of(values)
            return None if pair is None else int(pair == (right, answer))

        return read

    def ratio(name: str, weights: tuple[int, ...]) -> Measure:
        def read(values: Values) -> list[Any] | None:
            return None if pair_of(values) is None else [one(values) for one in cells]

        def score(sums: Sequence[float]) -> float:
            below = math.fsum(w * s for w, s in zip(weights, sums, strict=True))
            return weights[0] * sums[0] / below if below else 0.0

        hits = (weights[0], 0, 0)
        return ratio_of(name, read, score, lack, Ratio(above=hits, below=weights))

    cells = (
        cell(positive, positive),
        cell(negative, positive),
        cell(positive, negative),
    )
    names = ("true_positives", "false_positives", "false_negatives")
    return [
        _accuracy(lambda values: _hit(pair_of(values)), lack),
        ratio("precision", (1, 1, 0)),
        ratio("recall", (1, 0, 1)),
        ratio("f1_score", (2, 1, 1)),
        *(sum_of(name, one, lack) for name, one in zip(names, cells, strict=True)),
        sum_of("true_negatives", cell(negative, negative), lack),
    ]


def multiclass(gold: str, said: str, name: str) -> list[Measure]:
    """Accuracy; precision, recall and F1 of each class, and their plain means. A class
    that nobody names, or that is never right, has 0.

    Args:
        gold: Field with what is right.
        said: Field with what was said.
        name: Of the numbers that are named by classes.
    """
    lack = lacking(gold, said)

    def read(values: Values) -> list[str] | None:
        pair = _pair(values, gold, said)
        return None if pair is None else list(pair)

    def several(values: Sequence[Any]) -> Mapping[str, Estimate]:
        pairs = [(one[0], one[1]) for one in flat(values)]
        return {key: Estimate(number) for key, number in _by_class(pairs).items()}

    return [
        _accuracy(lambda values: _hit(_pair(values, gold, said)), lack),
        several_of(name, read, several, lack),
    ]


def _accuracy(hit: Callable[[Values], int | None], lack: str) -> Measure:
    return mean_measure("accuracy", hit, lack, True, span=SHARE)


def _by_class(pairs: Sequence[Pair]) -> dict[str, float]:
    classes = sorted({label for pair in pairs for label in pair})
    found: dict[str, float] = {}
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
            found[f"{label}_{key}"] = number
            sums[key] += number
    macro = {f"macro_{key}": total / len(classes) for key, total in sums.items()}
    return {**found, **macro}


def _pair(values: Values, gold: str, said: str) -> Pair | None:
    """Both labels as text; ``None`` where one is lacking."""
    right, answer = values.get(gold), values.get(said)
    return None if right is None or answer is None else (str(right), str(answer))


def _hit(pair: Pair | None) -> int | None:
    return None if pair is None else int(pair[0] == pair[1])
