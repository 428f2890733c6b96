"""Reducers of several answers to a document to one value: gates count documents, not
answers, because answers to one document are correlated.

The names are those of Inspect and lm-eval: ``mean``, ``max``, ``majority``, ``pass@k``
(at least one of k answers is correct) and ``pass^k`` (all k are).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace

from pytest_evals.core.gate import Gate
from pytest_evals.core.metric import Estimate, Metric, MetricResult
from pytest_evals.core.record import Score
from pytest_evals.core.reference import Reference
from pytest_evals.gates.terms import InvalidGateError
from pytest_evals.stats.averages import mean, mean_stderr

_PLAIN = ("mean", "max", "majority")
_OF_K = re.compile(r"pass([@^])([1-9]\d*)", re.ASCII)
REDUCERS = (*_PLAIN, "pass@k", "pass^k")
"""Names of reducers with a number k."""


def is_reducer(name: str) -> bool:
    """Whether the name is a reducer."""
    return name in _PLAIN or bool(_OF_K.fullmatch(name))


def n_needed(name: str) -> int:
    """The smallest number of answers to a document that the reducer accepts."""
    match = _OF_K.fullmatch(name)
    return int(match[2]) if match else 1


def reduced(
    name: str, values: Sequence[float], answers: Sequence[Hashable] = ()
) -> float:
    """Reduce the values of a document's answers to one.

    ``pass@k`` and ``pass^k`` are the unbiased estimates from n answers, c of them
    correct: 1 - C(n-c, k) / C(n, k) (Chen et al. 2021, arXiv 2107.03374) and C(c, k) /
    C(n, k) (Yao et al. 2024, arXiv 2406.12045).

    Args:
        values: One for each answer; not empty. For ``pass`` each is 0 or 1.
        answers: The answers; ``majority`` returns the value of the most frequent one,
            the earliest of several.

    Raises:
        ValueError: There are too few answers for the reducer, or values that are
            neither 0 nor 1.
    """
    if name == "mean":
        return math.fsum(values) / len(values)
    if name == "max":
        return max(values)
    if name == "majority":
        ((most, _),) = Counter(answers).most_common(1)
        return values[list(answers).index(most)]
    if not {*values} <= {0, 1}:
        raise ValueError(f"{name} counts right answers, and a value is neither 0 nor 1")
    n, k = len(values), n_needed(name)
    if n < k:
        raise ValueError(f"{name} needs {k} answers to a document, and one has {n}")
    right = round(sum(values))
    if "^" in name:
        return math.comb(right, k) / math.comb(n, k)
    return 1 - math.comb(n - right, k) / math.comb(n, k)


def reduced_scores(
    gate: Gate,
    metric: MetricResult,
    scores: Sequence[Score],
    id_of: Callable[[int], str],
) -> tuple[MetricResult, list[float]]:
    """The metric as the mean of the documents' reduced values, and these. ``id_of``:
    the id of the document of a score, by position."""
    if len(scores) > 1 and all(score.is_copied for score in scores):
        n = len(scores[0].repeats)
        raise InvalidGateError(
            f"all {n} answers to each document are identical although the "
            "temperature is above 0, so they are copies and not independent"
        )
    values = []
    for i, score in enumerate(scores):
        if not score.repeats:
            raise InvalidGateError(
                f"reducer {gate.reducer!r} needs the value of each answer, and "
                f"document {id_of(i)!r} has none: the task has one answer, or its "
                "filters combine several answers"
            )
        if not all(isinstance(value, (int, float)) for value in score.repeats):
            raise InvalidGateError(f"{metric.key} has no numbers to reduce")
        try:
            values.append(reduced(gate.reducer, score.repeats, score.repeat_answers))
        except ValueError as error:
            raise InvalidGateError(str(error)) from error
    changed = replace(
        metric,
        estimate=estimated_mean(values),
        total=sum(map(int, values)) if {*values} <= {0, 1} else None,
        how=Metric(
            name=metric.name,
            filter=metric.filter,
            aggregate=estimated_mean,
            higher_is_better=metric.higher_is_better,
            is_mean=True,
            limits=metric.known_limits,
        ),
    )
    return changed, values


def estimated_mean(values: Sequence[float]) -> Estimate:
    """The mean of documents' values with its standard error."""
    return Estimate(mean(values), mean_stderr(values), "analytic")


def reduced_reference(
    gate: Gate, metric: MetricResult, reference: Reference
) -> dict[int, float]:
    """Position of a document to its reduced value in a baseline."""
    kept = reference.repeats.get(metric.key)
    name = reference.baseline
    if not kept:
        fix = reference.fix or (
            f"a run with this gate and --evals-save-baseline={name} does, where "
            "answers are not copies"
        )
        raise InvalidGateError(
            f"baseline {name!r} has not kept the value of each answer; {fix}"
        )
    try:
        return {
            at: reduced(gate.reducer, answers.values, answers.texts)
            for at, answers in kept.items()
        }
    except ValueError as error:
        raise InvalidGateError(f"in baseline {name!r}, {error}") from error
