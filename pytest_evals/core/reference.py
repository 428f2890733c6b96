"""A task in a baseline, paired with the same task of this run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Answers(NamedTuple):
    """The answers to a document with several of them."""

    values: tuple[Any, ...]  # the value of each
    texts: tuple[str, ...]  # each answer, for display


class ComparedValues(NamedTuple):
    """The values by which two runs of a document are compared."""

    answers: Mapping[str, str]  # filter → answer, as text
    logprobs: tuple[float, ...]
    """Log-probability of each choice, in nats; empty if missing."""
    top_logprobs: str = ""
    """Those of the first generation, as compact JSON
    (:mod:`pytest_evals.core.top_logprobs`); empty if missing."""


class Overlap(NamedTuple):
    """The documents that a baseline and a run share."""

    n_before: int  # documents of the baseline; of a sampled run, those it has sampled
    shared: frozenset[int]
    """Positions of the documents in this run that both have, with equal prompt, target,
    choices and fields that scoring reads."""
    changes: tuple[str, ...] = ()  # the other documents, as text: 1 document added (d9)

    @property
    def text(self) -> str:
        """The number of compared documents, and the others."""
        n, of = f"{len(self.shared):,}", f"{self.n_before:,}"
        changes = "; ".join(self.changes)
        return f"{n} of {of} documents in the baseline compared; {changes}"

    def fault(self, least: float) -> str:
        """Why too few documents are left to compare; empty if enough are. ``least``:
        smallest share of the baseline's documents."""
        n = len(self.shared)
        if n and n >= least * self.n_before:
            return ""
        return (
            f"{'; '.join(self.changes)}: {n:,} of {self.n_before:,} documents are left "
            f"to compare, and min_overlap is {least:.4g}"
        )


MIN_OVERLAP = 0.8
"""Smallest share of a baseline's documents that a comparison needs, by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """The values of a task's documents in a baseline."""

    baseline: str
    values: Mapping[str, Mapping[int, Any]] = field(default_factory=dict)
    """Key of a metric → position of a document in this run's dataset → its value in the
    baseline."""
    repeats: Mapping[str, Mapping[int, Answers]] = field(default_factory=dict)
    """Key of a metric → position of a document → its answers in the baseline, if it had
    several and they were stored."""
    compared: Mapping[int, ComparedValues] = field(default_factory=dict)
    """Position of a document → its answers and log-probabilities."""
    rest: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Key of a metric → its values of documents that are not in this run, if this run
    is a random sample of the baseline's documents."""
    n: int = 0  # number of the baseline's documents
    overlap: Overlap | None = None  # documents to compare; all if None
    fault: str = ""
    """Why the two runs cannot be compared, and the fix; empty if they can."""
    fix: str = ""  # how to get another baseline; empty if a run of pytest saves it
    is_new: bool = False  # whether the baseline has no such task
    is_replaced: bool = False
    """Whether this run replaces the baseline, so that it need not be comparable."""
    notes: tuple[str, ...] = ()  # other differences that may explain a change


def logprobs_in(row: Mapping[str, Any]) -> tuple[float, ...]:
    """Log-probability of each choice in a row of samples or of a baseline; empty for
    generated answers."""
    if "logprobs" in row:
        return tuple(row["logprobs"])
    logprobs = []
    for responses in row.get("resps") or ():
        first = responses[0] if isinstance(responses, list) and responses else None
        if not isinstance(first, list) or not first or first[0] is None:
            return ()
        logprobs.append(float(first[0]))
    return tuple(logprobs)


Find = Callable[[str, str], Reference]
"""Maps the names of a baseline and a task to the task in that baseline."""


def no_reference(baseline: str, task: str) -> Reference:
    """The result without baselines."""
    fault = f"baseline {baseline!r} is not available outside of a run"
    return Reference(baseline=baseline, fault=fault)
