"""From the values of several trials of a sample to one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_evals.dialects.latticeflow.metrics.rows import number_of
from pytest_evals.errors import DocumentError

FUNCTIONS = ("mean", "min", "max", "pass@k", "pass^k")


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregator:
    """How the trials of one score are added up.

    Args:
        score: Its name.
        function: One of ``FUNCTIONS``.
        k: Tries, for the last two of them; may be more than there are trials.
        name: Of what comes out; empty for the score with the function after it.
    """

    score: str
    function: str
    k: int = 1
    name: str = ""

    @property
    def result(self) -> str:
        """The name of what comes out: ``is_correct.pass@3``."""
        function = self.function
        if function.startswith("pass"):
            function = f"{function[:-1]}{self.k}"
        return self.name or f"{self.score}.{function}"

    def of(self, values: Sequence[float]) -> float:
        """The value of all trials.

        Raises:
            DocumentError: The values are not right or wrong, and the function needs it.
        """
        if self.function in ("min", "max"):
            return float(min(values) if self.function == "min" else max(values))
        share = sum(values) / len(values)
        if self.function == "mean":
            return share
        if any(value not in (0, 1) for value in values):
            raise DocumentError(
                f"{self.function} takes right and wrong, and {self.score!r} is "
                f"{next(v for v in values if v not in (0, 1))!r}"
            )
        if self.function == "pass^k":
            return float(share**self.k)
        return 1.0 - float((1 - share) ** self.k)


def aggregated(
    trials: Sequence[Mapping[str, Any]], aggregators: Sequence[Aggregator]
) -> dict[str, Any]:
    """The values of a sample over its trials.

    A score without an aggregator has its mean, as ``x.mean``; texts are left out. Its
    own name stands for its mean too, so that a metric may name either.

    Raises:
        DocumentError: An aggregator cannot take the values.
    """
    numbers: dict[str, list[float]] = {}
    for values in trials:
        for name, value in values.items():
            number = number_of(value)
            if number is not None:
                numbers.setdefault(name, []).append(number)
    found: dict[str, Any] = {}
    for name, given in numbers.items():
        own = [one for one in aggregators if one.score == name]
        for one in own or [Aggregator(score=name, function="mean")]:
            found[one.result] = one.of(given)
    for name, given in numbers.items():
        found.setdefault(name, sum(given) / len(given))
    return found
