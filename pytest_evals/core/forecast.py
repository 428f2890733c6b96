"""What a run will do and what its gates can see, before anything is asked."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_evals.core.gate import Gate


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskForecast:
    """What a task will ask.

    Args:
        name: Of the task.
        n_documents: Documents that are selected.
        n_requests: Different requests.
        n_stored: Those whose responses are stored; ``None`` if only the model could
            say which of them are its own.
        n_characters: Of all prompts.
        n_tokens: About as many tokens, by an earlier run; ``None`` without one.
        seconds: About how long the model will be at work, by an earlier run.
        n_faults: Documents that cannot be asked.
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
class GateForecast:
    """What a gate can see. Numbers are shares; ``None`` where nothing can be said.

    Args:
        gate: The claim.
        n: Documents that it is about.
        last: Its number in the run that this is reckoned from.
        detects: The smallest drop that is seen with a power of 0.8.
        false_red: Chance that it fails although nothing has changed.
        n_needed: Documents that it takes to see what it asks for.
        read: Share of the documents that early stopping would read.
        warning: Why it decides little; empty if it is fit for its purpose.
        why: Why nothing was computed; empty if something was.
    """

    gate: Gate
    n: int
    last: float | None = None
    detects: float | None = None
    false_red: float | None = None
    n_needed: int | None = None
    read: float | None = None
    warning: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """All of it.

    Args:
        tasks: In the order of the run.
        gates: In the order of the run.
        source: The run that numbers are reckoned from, empty if there is none.
        flips: Share of answers that are taken to turn between two runs.
    """

    tasks: tuple[TaskForecast, ...]
    gates: tuple[GateForecast, ...]
    source: str = ""
    flips: float = 0.0
