"""Agreement of predicted labels or probabilities with the reference labels.

Works on labels and numbers, without documents or metrics. Equal to scikit-learn 1.9
(``f1_score``, ``matthews_corrcoef``) without depending on it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Literal


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
    counts = Counter(
        (gold == 1, prediction == 1)
        for gold, prediction in zip(golds, predictions, strict=True)
    )
    both = 2 * counts[True, True]
    either = both + counts[True, False] + counts[False, True]
    return both / either if either else 0.0


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
    """Return the Brier score: the mean squared distance between the probabilities and
    the one-hot vector of the reference label. Raises IndexError if a reference label is
    out of range."""
    total = 0.0
    for gold, row in zip(golds, probabilities, strict=True):
        total += squared_distance(gold, row)
    return total / len(golds)


def squared_distance(gold: int, row: Sequence[float]) -> float:
    """Return the squared distance between one document's probabilities and the one-hot
    vector of its reference label. Raises IndexError if the reference label is out of
    range."""
    at = range(len(row))[gold]
    return sum((p - (i == at)) ** 2 for i, p in enumerate(row))
