"""LatticeFlow's classification metrics: from the counts that scorers return, and from
labels.

Without counts, recall, precision and F1 are NaN if computed from counts, and 0 if
computed from labels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from pytest_evals.core.metric import SHARE, Estimate, Ratio
from pytest_evals.guests.latticeflow.metrics.measures import (
    Read,
    flatten,
    mean_measure,
    missing_message,
    named_values_measure,
    ratio_measure,
    sum_measure,
)
from pytest_evals.guests.latticeflow.metrics.value import ScorerValue
from pytest_evals.guests.latticeflow.prompts.output import SampleScore

Pair = tuple[str, str]
"""Expected and predicted label."""


def count_ratio(
    name: str, hits: str, misses: Sequence[str], weight: int = 1
) -> ScorerValue:
    """Return a ratio of hits to hits and misses, from the scorer's counts. ``weight``:
    weight of the hits; 2 in F1."""
    fields = (hits, *misses)

    def read(score: SampleScore) -> list[Any] | None:
        counts = [score.get(field) for field in fields]
        return None if None in counts else counts

    def value(sums: Sequence[float]) -> float:
        below = weight * sums[0] + math.fsum(sums[1:])
        return weight * sums[0] / below if below else math.nan

    return ratio_measure(name, read, value, missing_message(*fields))


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

    def cells(score: SampleScore) -> dict[str, int] | None:
        """Return 1 for the sample's outcome and 0 for the others."""
        pair = _pair(score, gold, predicted)
        if pair not in outcomes.values():
            return None
        return {name: int(pair == outcome) for name, outcome in outcomes.items()}

    def cell(name: str, score: SampleScore) -> int | None:
        found = cells(score)
        return None if found is None else found[name]

    def counts(score: SampleScore) -> list[int] | None:
        found = cells(score)
        return None if found is None else [*found.values()][:3]

    def ratio(name: str, weights: tuple[int, ...]) -> ScorerValue:
        def value(sums: Sequence[float]) -> float:
            below = math.fsum(w * s for w, s in zip(weights, sums, strict=True))
            return weights[0] * sums[0] / below if below else 0.0

        above = Ratio(above=(weights[0], 0, 0), below=weights)
        return ratio_measure(name, counts, value, missing, above)

    def is_hit(score: SampleScore) -> int | None:
        pair = _pair(score, gold, predicted)
        if pair is None or pair not in outcomes.values():
            return None
        return int(pair[0] == pair[1])

    return [
        _accuracy(is_hit, missing),
        ratio("precision", (1, 1, 0)),
        ratio("recall", (1, 0, 1)),
        ratio("f1_score", (2, 1, 1)),
        *(sum_measure(name, partial(cell, name), missing) for name in outcomes),
    ]


def multiclass(gold: str, predicted: str, name: str) -> list[ScorerValue]:
    """Return accuracy, and precision, recall and F1 of each class and as unweighted
    means. A class that is never predicted, or never correct, has 0."""
    missing = missing_message(gold, predicted)

    def read(score: SampleScore) -> list[str] | None:
        pair = _pair(score, gold, predicted)
        return None if pair is None else list(pair)

    def is_hit(score: SampleScore) -> int | None:
        pair = _pair(score, gold, predicted)
        return None if pair is None else int(pair[0] == pair[1])

    def several(values: Sequence[Any]) -> Mapping[str, Estimate]:
        pairs = [(one[0], one[1]) for one in flatten(values)]
        return {key: Estimate(number) for key, number in _by_class(pairs).items()}

    return [
        _accuracy(is_hit, missing),
        named_values_measure(name, read, several, missing),
    ]


def _accuracy(is_hit: Read, missing: str) -> ScorerValue:
    return mean_measure("accuracy", is_hit, missing, True, span=SHARE)


def _by_class(pairs: Sequence[Pair]) -> dict[str, float]:
    classes = sorted({label for pair in pairs for label in pair})
    by_class: dict[str, float] = {}
    sums = {"precision": 0.0, "recall": 0.0, "f1": 0.0}
    for label in classes:
        hits = pairs.count((label, label))
        golds, answers = (sum(pair[n] == label for pair in pairs) for n in (0, 1))
        of_class = {
            "precision": hits / answers if answers else 0.0,
            "recall": hits / golds if golds else 0.0,
            "f1": 2 * hits / (golds + answers),
        }
        for key, number in of_class.items():
            by_class[f"{label}_{key}"] = number
            sums[key] += number
    macro = {f"macro_{key}": total / len(classes) for key, total in sums.items()}
    return {**by_class, **macro}


def _pair(score: SampleScore, gold: str, predicted: str) -> Pair | None:
    """Return both labels as text; ``None`` if one is missing."""
    expected, answer = score.get(gold), score.get(predicted)
    return None if expected is None or answer is None else (str(expected), str(answer))
