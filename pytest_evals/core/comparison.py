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
    """A metric of a task or group in both runs."""

    task: str
    key: str
    before: float | None  # its value in the baseline, None if it has none
    now: float | None  # its value in this run
    higher_is_better: bool | None = None  # direction, None if unknown
    low: float | None = None
    """Lower limit of the 90% confidence interval of the change, from the paired
    documents; ``None`` without one."""
    high: float | None = None  # upper limit
    unit: Literal["plain", "percent"] = "plain"
    """``percent`` if the limits are relative to ``before`` (0.02 is 2%), as for
    perplexities; else ``plain``."""
    method: str = ""  # name of the interval's method
    no_interval: str = ""  # the reason for a missing interval


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentChange:
    """A document whose correctness differs between baseline and run."""

    task: str
    id: str
    prompt: Any  # the prompt, equal in both runs: a string, or messages
    target: str
    before: str  # the answer in the baseline
    now: str  # the answer in this run


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDifference:
    """A difference between two runs that may explain another number."""

    text: str
    examples: tuple[str, ...] = ()  # word diffs of texts that differ


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A run compared with a baseline."""

    name: str
    differences: tuple[RunDifference, ...] = ()
    """Differences of settings and prompts, the most likely cause first."""
    metrics: tuple[MetricChange, ...] = ()
    """Metrics of the tasks that could be compared."""
    worse: tuple[DocumentChange, ...] = ()
    """Documents that were correct and are wrong now."""
    better: tuple[DocumentChange, ...] = ()
    """Documents that were wrong and are correct now."""
    n_paired: int = 0  # documents with a score in both runs
    refused: tuple[str, ...] = ()
    """Reasons why tasks could not be compared; empty if all could."""
    warnings: tuple[str, ...] = ()  # documents and tasks that only one run has
