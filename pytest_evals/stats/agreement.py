"""How well predicted labels or probabilities agree with the right labels.

Labels and numbers in, numbers out; knows no document and no metric. Equal to
scikit-learn 1.9 (``f1_score``, ``matthews_corrcoef``) without needing it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence

__all__ = [
    "brier_score",
    "check_binary",
    "f1_score",
    "matthews_corrcoef",
    "squared_distance",
]


def check_binary(golds: Sequence[Hashable], predictions: Sequence[Hashable]) -> None:
    """Make sure that binary F1 is defined: at most two labels, one of them 1.

    Raises:
        ValueError: There are more labels, or two without a 1.
    """
    labels = {*golds, *predictions}
    if len(labels) > 2 or (len(labels) == 2 and 1 not in labels):
        shown = ", ".join(sorted(map(repr, labels))[:5])
        more = ", …" if len(labels) > 5 else ""
        raise ValueError(
            "binary F1 needs labels 1 (positive) and one other, "
            f"got {len(labels)}: {shown}{more}"
        )


def f1_score(golds: Sequence[Hashable], predictions: Sequence[Hashable]) -> float:
    """Binary F1 of label 1; 0 when label 1 was neither right nor predicted.

    Raises:
        ValueError: As in :func:`check_binary`.
    """
    check_binary(golds, predictions)
    counts = Counter(
        (gold == 1, prediction == 1)
        for gold, prediction in zip(golds, predictions, strict=True)
    )
    both = 2 * counts[True, True]
    either = both + counts[True, False] + counts[False, True]
    return both / either if either else 0.0


def matthews_corrcoef(
    golds: Sequence[Hashable], predictions: Sequence[Hashable]
) -> float:
    """Matthews' correlation coefficient, also of more than two labels; 0 when either
    side has one label only."""
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
    """Mean over documents of the squared distance between the probabilities and the
    right answer's corner.

    Raises:
        IndexError: A right label is no position in its probabilities.
    """
    total = 0.0
    for gold, row in zip(golds, probabilities, strict=True):
        total += squared_distance(gold, row)
    return total / len(golds)


def squared_distance(gold: int, row: Sequence[float]) -> float:
    """Between one document's probabilities and the corner of its right answer.

    Raises:
        IndexError: The right label is no position in its probabilities.
    """
    at = range(len(row))[gold]
    return sum((p - (i == at)) ** 2 for i, p in enumerate(row))
