"""A task of a baseline beside the same task of this run: facts only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Answers(NamedTuple):
    """The answers to a document that was asked several times.

    Args:
        values: The value of each.
        texts: Each as a person would read it.
    """

    values: tuple[Any, ...]
    texts: tuple[str, ...]


class Compared(NamedTuple):
    """What two runs of a document are compared by.

    Args:
        answers: Filter → answer, as text.
        logprobs: Log-probability of each choice, in nats; empty if there are none.
        top_logprobs: Those of the first generated answer, as compact JSON
            (:mod:`pytest_evals.core.top_logprobs`); empty if there are none.
    """

    answers: Mapping[str, str]
    logprobs: tuple[float, ...]
    top_logprobs: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """What the documents of a task were worth in a baseline.

    Args:
        baseline: What the baseline is called.
        values: Key of a metric → position of a document in this run's dataset → its
            value in the baseline.
        repeats: Key of a metric → position of a document → its answers in the baseline,
            where it was asked several times and they were kept.
        compared: Position of a document → its answers and log-probabilities.
        fault: Why the two cannot be compared, and what to do; empty if they can.
        is_replaced: Whether this run shall take the baseline's place, so that it need
            not be comparable.
        notes: What else differs and may explain a change.
    """

    baseline: str
    values: Mapping[str, Mapping[int, Any]] = field(default_factory=dict)
    repeats: Mapping[str, Mapping[int, Answers]] = field(default_factory=dict)
    compared: Mapping[int, Compared] = field(default_factory=dict)
    fault: str = ""
    is_replaced: bool = False
    notes: tuple[str, ...] = ()


def logprobs_in(row: Mapping[str, Any]) -> tuple[float, ...]:
    """Log-probability of each choice in a row of samples or of a baseline; empty for
    generated answers."""
    if "logprobs" in row:
        return tuple(row["logprobs"])
    found = []
    for responses in row.get("resps") or ():
        first = responses[0] if isinstance(responses, list) and responses else None
        if not isinstance(first, list) or not first or first[0] is None:
            return ()
        found.append(float(first[0]))
    return tuple(found)


Find = Callable[[str, str], Reference]
"""Names of a baseline and a task to what the task was there."""


def no_reference(baseline: str, task: str) -> Reference:
    """Where there are no baselines at all."""
    fault = f"nothing is known of a baseline {baseline!r} outside of a pytest session"
    return Reference(baseline=baseline, fault=fault)
