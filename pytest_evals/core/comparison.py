"""What has changed between a baseline and a run: facts only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricChange:
    """One number, before and now; ``None`` where it does not exist."""

    task: str
    key: str
    before: float | None
    now: float | None
    higher_is_better: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentChange:
    """A document that was right and is wrong, or the reverse.

    Args:
        task: Its task.
        id: Its id in this run.
        prompt: What was asked, the same both times: a text, or messages.
        target: What was wanted.
        before: The answer of the baseline.
        now: The answer of this run.
    """

    task: str
    id: str
    prompt: Any
    target: str
    before: str
    now: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A run beside a baseline.

    Args:
        name: The baseline.
        metrics: Numbers of the tasks that could be compared.
        worse: Documents that were right and are wrong now.
        better: Documents that were wrong and are right now.
        n_paired: Documents that were scored both times.
        refused: Why tasks could not be compared; empty if all could.
        warnings: What else differs and may explain a change.
    """

    name: str
    metrics: tuple[MetricChange, ...] = ()
    worse: tuple[DocumentChange, ...] = ()
    better: tuple[DocumentChange, ...] = ()
    n_paired: int = 0
    refused: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
