"""Per-document sums from which corpus metrics are computed.

Gates use them to estimate the variation of the metric. The standard errors of lm-eval
are in :mod:`pytest_evals.scorers.aggregations`.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from itertools import product

from pytest_evals.core.metric import Totals
from pytest_evals.scorers.agreement import squared_distance

Labels = tuple[Sequence[Hashable], Sequence[Hashable]]
Pairs = tuple[Sequence[float], Sequence[float]]


def mean_totals(values: Sequence[float]) -> Totals:
    """Totals of a mean without NaN."""
    present = [0.0 if math.isnan(value) else 1.0 for value in values]
    kept = [0.0 if math.isnan(value) else float(value) for value in values]
    return Totals(columns=(kept, present), score=_ratio, is_ratio=True)


def perplexity_totals(logprobs: Sequence[float]) -> Totals:
    """Totals of ``exp(-mean)`` of log-probabilities in nats."""
    losses = [-value for value in logprobs]
    ones = [1.0] * len(losses)
    return Totals(columns=(losses, ones), score=_ratio, is_log=True, is_ratio=True)


def weighted_totals(pairs: Pairs, unit: float = 1.0, *, is_log: bool = True) -> Totals:
    """Totals of the log-probabilities of texts divided by their lengths.

    Args:
        pairs: Log-probabilities in nats, and lengths.
        unit: Nats in a unit of the number.
        is_log: Whether the number is the exponential of that ratio.
    """
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
