"""Trials: repeated solving of each sample, and the aggregation of their scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_evals.core.task import MOST_REPEATS
from pytest_evals.dialects.yaml_reader.section import Section
from pytest_evals.errors import DocumentError
from pytest_evals.guests.latticeflow.fields import need, required_section, required_text
from pytest_evals.guests.latticeflow.metrics.measures import number_of
from pytest_evals.guests.latticeflow.prompts.output import SampleScore

FUNCTIONS = ("mean", "min", "max", "pass@k", "pass^k")


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregator:
    """Aggregates one score over trials."""

    score: str
    function: str  # one of FUNCTIONS
    k: int = 1  # attempts of pass@k and pass^k; may exceed the number of trials
    name: str = ""  # of the result; empty for score and function

    @property
    def result(self) -> str:
        """Name of the result: ``is_correct.pass@3``."""
        function = self.function
        if function.startswith("pass"):
            function = f"{function[:-1]}{self.k}"
        return self.name or f"{self.score}.{function}"

    def aggregate(self, values: Sequence[float]) -> float:
        """Return the aggregate of all trials. ``pass@k`` and ``pass^k`` need values of
        0 or 1."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Trials:
    """Repeated solving of each sample. ``n``: number of trials, at least 2."""

    n: int
    aggregators: tuple[Aggregator, ...] = ()

    def aggregate(self, scores: Sequence[SampleScore]) -> SampleScore:
        """Return the aggregate of all trials' scores.

        A score without an aggregator has its mean, as ``x.mean``; text values are left
        out. A score's own name also refers to its mean, so metrics can use either.
        """
        numbers: dict[str, list[float]] = {}
        for one in scores:
            for name, value in one.values.items():
                number = number_of(value)
                if number is not None:
                    numbers.setdefault(name, []).append(number)
        results: dict[str, Any] = {}
        for name, values in numbers.items():
            own = [one for one in self.aggregators if one.score == name]
            for aggregator in own or [Aggregator(score=name, function="mean")]:
                results[aggregator.result] = aggregator.aggregate(values)
        for name, values in numbers.items():
            results.setdefault(name, sum(values) / len(values))
        metadata: Mapping[str, Any] = {"trials": [one.to_dict() for one in scores]}
        return SampleScore(results, metadata)


def read_trials(section: Section) -> Trials:
    """Return the trials of a task; errors are added to the problems of the section."""
    need(section, "num_trials", "3")
    n = section.whole("num_trials", 2, 2, MOST_REPEATS)
    aggregators = tuple(map(_read_aggregator, section.entries("score_aggregators")))
    section.close("trials")
    return Trials(n=n, aggregators=aggregators)


def _read_aggregator(entry: Section) -> Aggregator:
    score = required_text(entry, "score_name", "is_correct")
    inner = required_section(entry, "aggregator", "{function: mean}")
    entry.close("an entry of score_aggregators")
    function, k = inner.one_of("function", "function", FUNCTIONS, ""), 1
    if not function.startswith("pass"):
        inner.refuse("k", f"{function} does not use it")
    elif need(inner, "k", "3", f"{function} needs k"):
        k = inner.whole("k", 1, 1)
    name = inner.text("score_name")
    inner.close("an aggregator")
    return Aggregator(score=score, function=function, k=k, name=name)
