"""Aggregates the values of several trials of a sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_evals.dialects.latticeflow.metrics.measures import number_of
from pytest_evals.errors import DocumentError

FUNCTIONS = ("mean", "min", "max", "pass@k", "pass^k")


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregator:
    """Aggregates one score over trials.

    Args:
        function: One of ``FUNCTIONS``.
        k: Number of attempts of ``pass@k`` and ``pass^k``; may exceed the number of
            trials.
        name: Name of the result; empty for the score and the function.
    """

    score: str
    function: str
    k: int = 1
    name: str = ""

    @property
    def result(self) -> str:
        """Name of the result: ``is_correct.pass@3``."""
        function = self.function
        if function.startswith("pass"):
            function = f"{function[:-1]}{self.k}"
        return self.name or f"{self.score}.{function}"

    def aggregate(self, values: Sequence[float]) -> float:
        """Return the aggregate of all trials.

        Raises:
            DocumentError: The function needs 0 or 1, and a value is neither.
        """
        if self.function in ("min", "max"):
            return float(min(values) if self.function == "min" else max(values))
        share = sum(values) / len(values)
        if self.function == "mean":
            return share
        if any(value not in (0, 1) for value in values):
            raise DocumentError(
                f"{self.function} needs values of 0 or 1, but {self.score!r} is "
                f"{next(v for v in values if v not in (0, 1))!r}"
            )
        if self.function == "pass^k":
            return float(share**self.k)
        return 1.0 - float((1 - share) ** self.k)


def aggregate_trials(
    trials: Sequence[Mapping[str, Any]], aggregators: Sequence[Aggregator]
) -> dict[str, Any]:
    """Return the values of a sample over its trials.

    A score without an aggregator has its mean, as ``x.mean``; text values are left out.
    A score's own name also refers to its mean, so metrics can use either.

    Raises:
        DocumentError: An aggregator cannot process the values.
    """
    numbers: dict[str, list[float]] = {}
    for values in trials:
        for name, value in values.items():
            number = number_of(value)
            if number is not None:
                numbers.setdefault(name, []).append(number)
    results: dict[str, Any] = {}
    for name, trial_values in numbers.items():
        own = [one for one in aggregators if one.score == name]
        for one in own or [Aggregator(score=name, function="mean")]:
            results[one.result] = one.aggregate(trial_values)
    for name, trial_values in numbers.items():
        results.setdefault(name, sum(trial_values) / len(trial_values))
    return results
