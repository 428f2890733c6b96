"""Several answers to each document, which tell themselves how much runs differ."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pytest_evals.core.gate import Gate
from pytest_evals.core.metric import MetricResult
from pytest_evals.core.result import TaskResult
from pytest_evals.gates.noise.placed import Placed
from pytest_evals.stats.averages import mean
from pytest_evals.stats.spread import Located

__all__ = ["place_repeats"]


def place_repeats(
    gate: Gate, metric: MetricResult, result: TaskResult
) -> Placed | None:
    """Where the mean of all answers lies over other runs on the same documents: by the
    variance between the answers to each; ``None`` where the gate asks for no such noise
    or says how large it is, or where there are fewer than two answers.

    Args:
        gate: The claim.
        metric: The metric, reduced.
        result: The task.
    """
    if gate.reducer != "mean" or gate.over != "benchmark" or gate.flip_rate is not None:
        return None
    groups = [
        score.repeats
        for record in result.records
        for score in record.scores
        if score.key == metric.key
        and not (score.unscored or record.error or record.excluded)
    ]
    least = min(map(len, groups), default=0)
    if least < 2 or metric.estimate is None:
        return None
    within = math.fsum(_variance(values) / len(values) for values in groups)
    n = len(groups)
    spread = Located(metric.estimate.value, math.sqrt(within) / n)
    return Placed(spread=spread, method=f"{least} answers to each document")


def _variance(values: Sequence[Any]) -> float:
    centre = mean(values)
    return math.fsum((value - centre) ** 2 for value in values) / (len(values) - 1)
