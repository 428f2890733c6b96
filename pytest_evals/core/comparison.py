"""Differences between a baseline and a run, without any computation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import Any, Literal

from pytest_evals.core.display import table
from pytest_evals.errors import plural

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

    def __repr__(self) -> str:
        rows = ("  ".join(map(str, row)) for row in self._rows())
        lines = [*self._notes(), *(f"  {row}" for row in rows)]
        return "\n".join([f"<Comparison with {self.name}>", *lines])

    def _repr_html_(self) -> str:
        heading = ("task", "metric", "before", "now", "change", "90% CI")
        notes = (f"<p>{escape(line)}</p>" for line in self._notes())
        title = f"<p><b>compared with {escape(self.name)}</b></p>"
        return "\n".join([title, *notes, table(heading, [*self._rows()])])

    def _rows(self) -> Iterator[tuple[str, ...]]:
        for one in self.metrics:
            limits = (one.low, one.high)
            ci = "" if None in limits else "[{:+.4g}, {:+.4g}]".format(*limits)
            if one.before is None or one.now is None:
                change = "-"
            elif one.unit == "percent":
                change, ci = f"{one.now / one.before - 1:+.2%}", f"{ci} relative"
            else:
                change = f"{one.now - one.before:+.4g}"
            values = (
                f"{v:.4g}" if v is not None else "-" for v in (one.before, one.now)
            )
            yield one.task, one.key, *values, change, ci or one.no_interval

    def _notes(self) -> Iterator[str]:
        counts = f"{len(self.worse)} worse, {len(self.better)} better"
        yield f"{plural(self.n_paired, 'document')}: {counts}"
        yield from (f"differs: {one.text}" for one in self.differences)
        yield from (f"not compared: {text}" for text in self.refused)
        yield from self.warnings
