"""A claim about a metric, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Literal

from pytest_evals.core.metric import MetricResult
from pytest_evals.errors import Place

__all__ = ["Bound", "Gate", "Interval", "Outcome", "Policy", "Scope", "Verdict"]

Scope = Literal["run", "benchmark", "population"]
"""Which noise a gate counts: none, that of another run, that of other documents."""
Policy = Literal["warn", "fail", "pass"]
"""What becomes of a gate whose verdict is open."""


@dataclass(frozen=True, slots=True)
class Bound:
    """One side of a claim. The number is kept as it was typed, so that 0.7 is 7/10 and
    not a float near it."""

    op: Literal[">=", ">", "<=", "<"]
    value: Decimal

    def __str__(self) -> str:
        """The bound as typed: ``>= 0.75``."""
        return f"{self.op} {self.value}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """A claim about one metric of one task, or about documents that must be right.

    Args:
        id: Last part of its node id; unique within the task.
        task: Name of the task.
        metric: Name of the metric.
        filter: Name of the filter pipeline; empty when the metric exists under one
            filter only.
        bounds: All must hold.
        must_pass: Ids of documents that must be answered right.
        over: Which noise counts: none, that of another run on the same documents, or
            that of other documents of the same kind.
        confidence: Of each bound of the interval, where noise counts.
        flip_rate: Share of documents whose answer turns between two runs of one model,
            ``None`` if unknown.
        inconclusive: What an open verdict means; empty for the session's policy.
        text: The claim as written, for headings.
        source: Where it was written.
    """

    id: str
    task: str
    metric: str = ""
    filter: str = ""
    bounds: tuple[Bound, ...] = ()
    must_pass: tuple[str, ...] = ()
    over: Scope = "run"
    confidence: float = 0.95
    flip_rate: float | None = None
    inconclusive: Policy | Literal[""] = ""
    text: str = ""
    source: Place


@dataclass(frozen=True, slots=True)
class Interval:
    """Where a number lies, as far as its noise goes.

    Args:
        low: One-sided lower bound.
        high: One-sided upper bound.
        method: How both were obtained.
    """

    low: float
    high: float
    method: str


class Outcome(Enum):
    """What became of a gate."""

    PASSED = "passed"
    FAILED = "failed"
    INCONCLUSIVE = "inconclusive"
    """The noise covers the bar."""
    INVALID = "invalid"
    """There is nothing sound to judge: documents errored, unscored or lost, or the
    metric is absent."""
    SKIPPED = "skipped"
    """Documents were deselected or not reached: never green, never red."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A gate's outcome and the numbers it rests on.

    Args:
        gate: The claim.
        outcome: What became of it.
        metric: The metric that was judged, ``None`` if it is absent or the gate names
            documents.
        short: How far the value is beyond the bound that failed, as a positive
            distance; 0 if none failed.
        n_short: Further right answers that would have passed the gate; ``None`` where
            that cannot be said.
        reason: In one line, why the outcome is what it is.
        documents: Ids of documents that decided it (``must_pass``).
        interval: What was held against the bounds, where noise counts.
        policy: What it means if the outcome is inconclusive.
    """

    gate: Gate
    outcome: Outcome
    metric: MetricResult | None = None
    short: float = 0.0
    n_short: int | None = None
    reason: str = ""
    documents: tuple[str, ...] = ()
    interval: Interval | None = None
    policy: Policy = "warn"

    @property
    def is_red(self) -> bool:
        """Whether it fails the session."""
        if self.outcome is Outcome.INCONCLUSIVE:
            return self.policy == "fail"
        return self.outcome in (Outcome.FAILED, Outcome.INVALID)
