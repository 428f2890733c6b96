"""Differences between a baseline and a run, without any computation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricChange:
    """A metric in the baseline and in the run; ``None`` if it does not exist there."""

    task: str
    key: str
    before: float | None
    now: float | None
    higher_is_better: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentChange:
    """A document whose correctness differs between baseline and run.

    Args:
        task: Name of its task.
        id: Its id in this run.
        prompt: The prompt, equal in both runs: a string, or messages.
        target: The reference answer.
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
        name: The baseline.
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
