"""Metrics of one log-probability: of a continuation or of a full text.

Formulas as in lm-eval 0.4.13 (``ConfigurableTask.process_results``).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from pytest_evals.core.doc import Doc
from pytest_evals.errors import DocumentError
from pytest_evals.scorers.choices import check_pair
from pytest_evals.scorers.metric_value import MetricValue

CONTINUATION_METRICS: Mapping[str, Callable[[float, bool], float | int]] = {
    "acc": lambda logprob, greedy: int(greedy),
    # Of the whole target: perplexity per target, not per token.
    "perplexity": lambda logprob, greedy: logprob,
}
"""Name → value of a continuation's log-probability (nats) and greedy flag."""


def _n_words(text: str) -> int:
    # White space at either end adds an empty word, which is counted.
    return len(re.split(r"\s+", text))


def _n_bytes(text: str) -> int:
    return len(text.encode())


ROLLING_METRICS: Mapping[str, Callable[[str], int]] = {
    "bits_per_byte": _n_bytes,
    "byte_perplexity": _n_bytes,
    "word_perplexity": _n_words,
}
"""Name → length that a text's log-probability is divided by."""


def measure_continuation(
    doc: Doc, results: Sequence[Any], metrics: Collection[str]
) -> list[MetricValue]:
    """Values of the metrics for a document, in the given order. Raises DocumentError if
    the results are not one ``(log-probability, greedy)`` pair."""
    logprob, greedy = check_pair(_single(results))
    target = doc.choices[0] if doc.choices else "greedy"
    answer = target if greedy else ""
    return [
        MetricValue(name, CONTINUATION_METRICS[name](logprob, greedy), answer)
        for name in metrics
    ]


def measure_rolling(
    doc: Doc, results: Sequence[Any], metrics: Collection[str]
) -> list[MetricValue]:
    """Values of the metrics for a document, in the given order: log-probability and
    length of the text. Raises DocumentError if the results are not one log-probability.
    """
    logprob = _single(results)
    if not isinstance(logprob, (int, float)) or math.isnan(logprob):
        raise DocumentError(f"a log-probability was expected, got {logprob!r}")
    return [
        MetricValue(name, (float(logprob), ROLLING_METRICS[name](doc.query)))
        for name in metrics
    ]


def _single(results: Sequence[Any]) -> Any:
    if len(results) != 1:
        raise DocumentError(f"one result was expected, got {len(results)}")
    return results[0]
