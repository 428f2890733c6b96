"""Several answers to each document, which tell themselves how much runs differ."""

from __future__ import annotations

from pytest_evals.core.gate import Gate
from pytest_evals.core.metric import MetricResult
from pytest_evals.core.result import TaskResult
from pytest_evals.gates.noise.placed import Placed
from pytest_evals.gates.noise.sums import limits_of
from pytest_evals.stats.reruns import mean_over_reruns

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
    known = metric.how.known_limits if metric.how is not None else None
    ends = limits_of([value for values in groups for value in values], known)
    spread = mean_over_reruns(groups, ends)
    return Placed(spread=spread, method=f"{least} answers to each document")
