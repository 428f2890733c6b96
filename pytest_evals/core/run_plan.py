"""The plan of a run: its requests, and the power of its gates, before anything is
sent."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_evals.core.gate import Gate


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPlan:
    """The planned requests of a task.

    Args:
        name: Name of the task.
        n_documents: Number of selected documents.
        n_requests: Number of distinct requests.
        n_stored: Number of cached responses; ``None`` if that is unknown without
            opening the model.
        n_characters: Total length of the prompts.
        n_tokens: Estimated number of tokens, from an earlier run; ``None`` without one.
        seconds: Estimated time of inference, from an earlier run.
        n_faults: Number of documents that cannot be prompted.
    """

    name: str
    n_documents: int
    n_requests: int
    n_stored: int | None
    n_characters: int
    n_tokens: int | None = None
    seconds: float | None = None
    n_faults: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GatePlan:
    """The power of a gate. Numbers are shares; ``None`` if unknown.

    Args:
        gate: The gate.
        n: Number of its documents.
        last: Value of its metric in the earlier run.
        detects: Minimum detectable effect: the smallest drop detected with a power of
            0.8.
        false_positive_rate: Probability that it fails although nothing has changed.
        n_needed: Number of documents needed to detect its margin.
        read: Share of the documents that early stopping is expected to run.
        warning: Why its verdict has little value; empty if there is no such reason.
        why: Why nothing was computed; empty otherwise.
    """

    gate: Gate
    n: int
    last: float | None = None
    detects: float | None = None
    false_positive_rate: float | None = None
    n_needed: int | None = None
    read: float | None = None
    warning: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """The plan of a run.

    Args:
        tasks: In the order of the run.
        gates: In the order of the run.
        source: The earlier run that the estimates are based on; empty if missing.
        flips: Assumed flip rate between two runs.
    """

    tasks: tuple[TaskPlan, ...]
    gates: tuple[GatePlan, ...]
    source: str = ""
    flips: float = 0.0
