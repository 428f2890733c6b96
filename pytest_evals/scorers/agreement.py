"""Agreement of predicted labels or probabilities with the reference labels, and the
per-document sums from which it and other corpus metrics are computed.

Works on labels and numbers, without documents or metrics. Equal to scikit-learn 1.9
(``f1_score``, ``matthews_corrcoef``) without depending on it. Gates use the sums to
estimate the variation of a metric; lm-eval's standard errors are in
:mod:`pytest_evals.scorers.aggregations`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from itertools import product
from typing import Any, Literal

from pytest_evals.core.metric import Totals


def check_binary(golds: Sequence[Hashable], predictions: Sequence[Hashable]) -> None:
    """Check that binary F1 is defined: at most two labels, one of them 1. Raises
    ValueError if there are more than two labels, or two without a 1."""
    labels = {*golds, *predictions}
    if len(labels) > 2 or (len(labels) == 2 and 1 not in labels):
        shown = ", ".join(sorted(map(repr, labels))[:5])
        more = ", …" if len(labels) > 5 else ""
        raise ValueError(
            "binary F1 needs labels 1 (positive) and one other, "
            f"got {len(labels)}: {shown}{more}"
        )


def f1_score(golds: Sequence[Hashable], predictions: Sequence[Hashable]) -> float:
    """Return the binary F1 of label 1; 0 if label 1 is neither expected nor predicted.
    Raises ValueError as in :func:`check_binary`."""
    check_binary(golds, predictions)
    return f1_by_label(Counter(zip(golds, predictions, strict=True))).get(1, 0.0)


def f1_by_label(counts: Mapping[tuple[Any, Any], float]) -> dict[Any, float]:
    """Return the F1 of each label."""
    found = {}
    for label in dict.fromkeys(label for pair in counts for label in pair):
        both = counts.get((label, label), 0)
        either = sum(
            n * ((gold == label) + (predicted == label))
            for (gold, predicted), n in counts.items()
        )
        found[label] = 2 * both / either if either else 0.0
    return found


def averaged_f1(
    counts: Mapping[tuple[Any, Any], float],
    average: Literal["macro", "micro", "weighted"],
) -> float:
    """Return the F1 over all labels; equals scikit-learn's with the same ``average``.
    ``counts``: number of documents for each pair of reference and predicted label; not
    empty. ``average``: ``micro`` for the fraction of correct labels, ``macro`` for the
    mean of the labels' F1, ``weighted`` for their mean weighted by reference frequency.
    """
    total = sum(counts.values())
    if average == "micro":
        return (
            sum(n for (gold, predicted), n in counts.items() if gold == predicted)
            / total
        )
    by_label = f1_by_label(counts)
    if average == "macro":
        return sum(by_label.values()) / len(by_label)
    return sum(by_label[gold] * n for (gold, _), n in counts.items()) / total


def matthews_corrcoef(
    golds: Sequence[Hashable], predictions: Sequence[Hashable]
) -> float:
    """Return the Matthews correlation coefficient for two or more labels; 0 if either
    side has only one label."""
    n = len(golds)
    right = Counter(golds)
    predicted = Counter(predictions)
    n_same = sum(g == p for g, p in zip(golds, predictions, strict=True))
    both = n_same * n - sum(count * predicted[label] for label, count in right.items())
    spread_right = n * n - sum(count * count for count in right.values())
    spread_predicted = n * n - sum(count * count for count in predicted.values())
    if not spread_right or not spread_predicted:
        return 0.0
    return both / math.sqrt(spread_right * spread_predicted)


def brier_score(
    golds: Sequence[int], probabilities: Sequence[Sequence[float]]
) -> float:
    """Return the Brier score: the mean of :func:`squared_distance`."""
    pairs = zip(golds, probabilities, strict=True)
    return sum(squared_distance(gold, row) for gold, row in pairs) / len(golds)


def squared_distance(gold: int, row: Sequence[float]) -> float:
    """Return the squared distance between one document's probabilities and the one-hot
    vector of its reference label. Raises IndexError if the reference label is out of
    range."""
    at = range(len(row))[gold]
    return sum((p - (i == at)) ** 2 for i, p in enumerate(row))


Labels = tuple[Sequence[Hashable], Sequence[Hashable]]
Pairs = tuple[Sequence[float], Sequence[float]]


def mean_totals(values: Sequence[float]) -> Totals:
    """Totals of a mean without NaN."""
    present = [0.0 if math.isnan(value) else 1.0 for value in values]
    kept = [0.0 if math.isnan(value) else float(value) for value in values]
    return Totals(columns=(kept, present), score=_ratio, is_ratio=True)


def perplexity_totals(logprobs: Sequence[float]) -> Totals:
    """Totals of ``exp(-mean)`` of log-probabilities in nats."""
    return weighted_totals((logprobs, [1.0] * len(logprobs)))


def weighted_totals(pairs: Pairs, unit: float = 1.0, *, is_log: bool = True) -> Totals:
    """Totals of the log-probabilities of texts, in nats, divided by their lengths.
    ``unit``: nats in a unit of the number. ``is_log``: whether the number is the
    exponential of that ratio."""
    losses = [-value / unit for value in pairs[0]]
    lengths = [float(length) for length in pairs[1]]
    return Totals(columns=(losses, lengths), score=_ratio, is_log=is_log, is_ratio=True)


def brier_totals(pairs: tuple[Sequence[int], Sequence[Sequence[float]]]) -> Totals:
    """Totals of the mean squared distance between probabilities and correct answers."""
    return mean_totals(
        [squared_distance(gold, row) for gold, row in zip(*pairs, strict=True)]
    )


def f1_totals(labels: Labels) -> Totals:
    """Totals of the binary F1 score of label 1."""
    golds = [label == 1 for label in labels[0]]
    predictions = [label == 1 for label in labels[1]]
    both = [float(g and p) for g, p in zip(golds, predictions, strict=True)]
    one = [float(g != p) for g, p in zip(golds, predictions, strict=True)]
    return Totals(columns=(both, one), score=_f1, kinds=((1, 0), (0, 1), (0, 0)))


def matthews_totals(labels: Labels) -> Totals:
    """Totals of Matthews' correlation: correctness, gold and predicted label."""
    golds, predictions = labels
    labels_ = list(dict.fromkeys((*golds, *predictions)))
    same = [float(g == p) for g, p in zip(golds, predictions, strict=True)]
    by_gold = [[float(gold == label) for gold in golds] for label in labels_]
    by_prediction = [[float(one == label) for one in predictions] for label in labels_]
    kinds = [
        [float(a == b), *(float(a == one) for one in labels_)]
        + [float(b == one) for one in labels_]
        for a, b in product(labels_, repeat=2)
    ]
    columns = (same, *by_gold, *by_prediction)
    return Totals(columns=columns, score=_matthews, kinds=kinds)


def _ratio(sums: Sequence[float]) -> float:
    above, below = sums
    return above / below if below else math.nan


def _f1(sums: Sequence[float]) -> float:
    both, one = sums
    return 2 * both / (2 * both + one) if both or one else 0.0


def _matthews(sums: Sequence[float]) -> float:
    same, *rest = sums
    half = len(rest) // 2
    by_gold, by_prediction = rest[:half], rest[half:]
    n = math.fsum(by_gold)
    both = same * n - math.fsum(
        r * g for r, g in zip(by_gold, by_prediction, strict=True)
    )
    spread_right = n * n - math.fsum(r * r for r in by_gold)
    spread_given = n * n - math.fsum(g * g for g in by_prediction)
    if spread_right <= 0 or spread_given <= 0:
        return 0.0
    return both / math.sqrt(spread_right * spread_given)
