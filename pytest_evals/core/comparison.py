"""Differences between a baseline and a run, without any computation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

ENVIRONMENT = "environment differs: "
"""Start of the note about other hardware and libraries."""


def is_environment(note: str) -> bool:
    """Whether a note is about other hardware and libraries than the baseline's."""
    return note.startswith(ENVIRONMENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricChange:
    """A metric of a task or group in both runs.

    Args:
        before: Its value in the baseline, ``None`` if it has none.
        now: Its value in this run.
        higher_is_better: Direction, ``None`` if unknown.
        low: Lower limit of the 90% confidence interval of the change, from the paired
            documents; ``None`` without one.
        high: Upper limit.
        unit: ``percent`` if the limits are relative to ``before`` (0.02 is 2%), as for
            perplexities; else ``plain``.
        method: Name of the interval's method.
        no_interval: The reason for a missing interval.
    """

    task: str
    key: str
    before: float | None
    now: float | None
    higher_is_better: bool | None = None
    low: float | None = None
    high: float | None = None
    unit: Literal["plain", "percent"] = "plain"
    method: str = ""
    no_interval: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentChange:
    """A document whose correctness differs between baseline and run.

    Args:
        prompt: The prompt, equal in both runs: a string, or messages.
        before: The answer in the baseline.
        now: The answer in this run.
    """

    task: str
    id: str
    prompt: Any
    target: str
    before: str
    now: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A run compared with a baseline.

    Args:
        metrics: Metrics of the tasks that could be compared.
        worse: Documents that were correct and are wrong now.
        better: Documents that were wrong and are correct now.
        n_paired: Documents with a score in both runs.
        refused: Reasons why tasks could not be compared; empty if all could.
        warnings: Other differences that may explain a change.
    """

    name: str
    metrics: tuple[MetricChange, ...] = ()
    worse: tuple[DocumentChange, ...] = ()
    better: tuple[DocumentChange, ...] = ()
    n_paired: int = 0
    refused: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
