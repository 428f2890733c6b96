"""How well predicted labels or probabilities agree with the right labels.

Labels and numbers in, numbers out; knows no document and no metric. Equal to
scikit-learn 1.9 (``f1_score``, ``matthews_corrcoef``) without needing it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Literal


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


def f1_by_label(counts: Mapping[tuple[Any, Any], float]) -> dict[Any, float]:
    """F1 of each label.

    Args:
        counts: How often each pair of right and predicted label comes.
    """
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
    """F1 of all labels together; equals scikit-learn's with that ``average``.

    Args:
        counts: How often each pair of right and predicted label comes; not empty.
        average: ``micro`` for the share of right labels, ``macro`` for the mean of the
            labels' F1, ``weighted`` by how often each is the right one.
    """
    total = sum(counts.values())
    if average == "micro":
        return sum(n for (gold, said), n in counts.items() if gold == said) / total
    by_label = f1_by_label(counts)
    if average == "macro":
        return sum(by_label.values()) / len(by_label)
    return sum(by_label[gold] * n for (gold, _), n in counts.items()) / total


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
