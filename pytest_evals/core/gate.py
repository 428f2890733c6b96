"""Gates, their verdicts, and the numbers that reports show of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Any, Literal, NamedTuple

from pytest_evals.core.metric import MetricResult
from pytest_evals.errors import Place

Scope = Literal["run", "benchmark", "population"]
"""Inference target of a gate: this run's number, another run on the same documents, or
other documents of the same population."""
Policy = Literal["warn", "fail", "pass"]
"""Meaning of an inconclusive verdict."""
Unit = Literal["points", "percent", "plain"]
"""Unit of a change: percentage points of a share, percent of the baseline, or plain
numbers."""

DOCUMENT_KEYS = ("must_pass", "every")
"""Keys of conditions on documents; each is a field of :class:`Gate`."""


@dataclass(frozen=True, slots=True)
class Bound:
    """One side of a condition. The number is kept as typed, so that 0.7 is exactly
    7/10."""

    op: Literal[">=", ">", "<=", "<"]
    value: Decimal

    @property
    def is_lower(self) -> bool:
        """Whether it limits the number from below."""
        return self.op in (">=", ">")

    def __str__(self) -> str:
        """The bound as typed: ``>= 0.75``."""
        return f"{self.op} {self.value}"


@dataclass(frozen=True, slots=True)
class Margin:
    """The largest allowed decline from a baseline."""

    key: Literal["max_drop", "max_rise", "recovery"]
    """As typed. ``recovery`` is the smallest allowed share of the baseline's value."""
    value: Decimal  # as typed, never negative; a percentage is a share
    relative: bool = False  # whether the value is a share of the baseline's

    @property
    def sign(self) -> int:
        """1 if it limits drops, -1 if it limits rises."""
        return -1 if self.key == "max_rise" else 1

    def allowed(self, before: float) -> float:
        """The largest allowed change for the worse, 0 or more, for a baseline value."""
        if self.key == "recovery":
            return float(1 - self.value) * abs(before)
        return float(self.value) * (abs(before) if self.relative else 1.0)

    def __str__(self) -> str:
        """The margin as a condition: ``drop <= 2%``."""
        if self.key == "recovery":
            return f"recovery >= {_percent(self.value)}"
        number = _percent(self.value) if self.relative else str(self.value)
        return f"{self.key.removeprefix('max_')} <= {number}"


def _percent(share: Decimal) -> str:
    return f"{float(share * 100):g}%"


class Every(NamedTuple):
    """Number of answers to each document that must be correct: at least ``least`` of
    ``n``."""

    least: int
    n: int

    def __str__(self) -> str:
        """As typed: ``8 of 10``."""
        return f"{self.least} of {self.n}"


class Published(NamedTuple):
    """A published number."""

    value: Decimal  # as typed
    n: int | None = None  # number of its documents, None if unknown
    protocol: tuple[tuple[str, Any], ...] = ()
    """How it was measured, by key (``num_fewshot``, ``limit`` …)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """A condition on one metric of one task, or on documents that must be correct."""

    id: str  # last part of its node id; unique within the task
    task: str
    metric: str = ""
    filter: str = ""  # name of the filter pipeline; empty if the metric has only one
    bounds: tuple[Bound, ...] = ()
    """All must hold. Without bounds, baseline and documents, the gate passes if the
    metric has a value."""
    must_pass: tuple[str, ...] = ()  # ids of documents that must be correct
    every: Every | None = None
    """Answers to each document that must be correct: those of ``must_pass``, or all of
    the task."""
    over: Scope = "run"
    """Inference target: this run, another run on the same documents, or other documents
    of the same population."""
    confidence: float = 0.95  # confidence level of each one-sided confidence limit
    flip_rate: float | None = None
    """Fraction of documents whose result flips between two runs of one model, ``None``
    if unknown."""
    measured: bool = True
    """Whether a measured flip rate may be used if ``flip_rate`` is unknown."""
    names_target: bool = False
    """Whether its entry names the inference target, by ``over`` or ``noise``."""
    inconclusive: Policy | Literal[""] = ""
    """Meaning of an inconclusive verdict; empty for the session's policy."""
    baseline: str = ""
    """Name of the stored run that it compares with; empty for a condition on the
    number."""
    margin: Margin | None = None
    """Largest allowed decline; set if ``baseline`` or ``published`` is."""
    published: Published | None = None  # the published number that it compares with
    expected: Decimal | None = None
    """The value whose tolerance the bounds are; ``None`` for other bounds."""
    cluster: str = ""
    """Field of the rows whose values define clusters of dependent documents (such as
    questions on one passage); empty if documents are independent."""
    largest_drop: float | None = None
    """Assumption that no document's value drops more than this since the baseline;
    ``None`` without it."""
    range: tuple[float, float] | None = None
    """Smallest and largest possible value of a document, as declared; ``None`` if the
    metric's own range counts."""
    control: str = ""
    """Name of a complete baseline; the number of a sampled run over the whole benchmark
    is estimated from it."""
    family: str = ""
    """Gates that are corrected together for multiple testing; empty for the gates of
    its task or group, ``none`` for no correction."""
    reducer: str = ""
    """How several answers to one document become one value; empty for the task's
    filters."""
    allows_missing: bool = False  # whether scored documents may lack the metric
    min_overlap: float | None = None
    """Smallest share of the baseline's documents that the run must have with equal
    content; ``None`` for the session's."""
    advisory: bool = False
    """Whether it is judged and shown, but never fails the session."""
    when: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Conditions on model and machine: a key and its patterns, one of which must match.
    If a condition does not hold, the gate is not judged."""
    text: str = ""  # the gate as written, for headings
    source: Place  # file and line
    foreign: bool = False
    """Whether it was written for another program: its problems are warnings before the
    run instead of errors."""

    @property
    def is_about_documents(self) -> bool:
        """Whether it is a condition on single documents and not on a metric."""
        return bool(self.document_key)

    @property
    def document_key(self) -> str:
        """The key of its condition on documents; empty for a gate on a metric."""
        return next((key for key in DOCUMENT_KEYS if getattr(self, key)), "")

    @property
    def ci(self) -> str:
        """Both one-sided limits together: ``90% CI`` at a confidence of 0.95."""
        return f"{100 * (2 * self.confidence - 1):.4g}% CI"


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval."""

    low: float  # one-sided lower confidence limit
    high: float  # one-sided upper confidence limit
    method: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A metric compared with its baseline over the same documents."""

    baseline: str
    before: float  # value in the baseline
    now: float  # value in this run
    difference: float
    """The change that is compared: ``now - before``, or ``now / before - 1`` if
    ``unit`` is percent of a ratio."""
    op: Literal[">=", "<="]  # direction of the condition
    bar: float  # threshold, on the same scale
    unit: Unit  # unit of these three
    n: int  # number of paired documents
    gained: int | None = None
    """Documents that were wrong and are correct now; ``None`` if documents are neither.
    """
    lost: int | None = None  # documents that were correct and are wrong now


class Outcome(StrEnum):
    """The outcome of a gate."""

    PASSED = "passed"
    FAILED = "failed"
    INCONCLUSIVE = "inconclusive"  # the threshold is within the confidence interval
    INVALID = "invalid"
    """The gate cannot be evaluated: documents errored, unscored or lost, or the metric
    is absent."""
    SKIPPED = "skipped"
    """Documents were deselected or not reached; the gate neither passes nor fails."""
    PENDING = "pending"
    """This is a part of a run; the gate is judged when its parts are merged."""


WORST_FIRST = (
    Outcome.FAILED,
    Outcome.INVALID,
    Outcome.INCONCLUSIVE,
    Outcome.PENDING,
    Outcome.SKIPPED,
    Outcome.PASSED,
)
"""Outcomes of gates, the worst first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The outcome of a gate and its numbers."""

    gate: Gate
    outcome: Outcome
    metric: MetricResult | None = None
    """The metric that was judged, ``None`` if it is absent or the gate is on documents.
    """
    short: float = 0.0
    """Distance of the value from the threshold that failed; 0 if none failed."""
    n_short: int | None = None
    """Number of additional correct answers with which the gate would have passed;
    ``None`` if unknown."""
    conclusion: str = ""
    """What the confidence limits show, in plain words; empty if the number was
    compared."""
    reason: str = ""  # the numbers behind the outcome, on one line
    method: str = ""
    """Inference target, method of the confidence limits and correction, for those who
    want to check the numbers."""
    documents: tuple[str, ...] = ()  # ids of the documents that decided it (must_pass)
    previous: Mapping[str, str] = field(default_factory=dict)
    """Ids of such documents of a baseline gate → their answer in the baseline, if it is
    stored."""
    interval: Interval | None = None
    """The confidence interval that was compared; for a baseline gate, that of the
    change. ``None`` if the number was compared."""
    change: Change | None = None  # the change of a baseline gate
    p_fails: float | None = None
    """One-sided p-value of the hypothesis that the condition holds: small values are
    evidence that it does not. ``None`` if the number was compared, or if the condition
    cannot fail."""
    p_passes: float | None = None
    """One-sided p-value of the hypothesis that the condition does not hold."""
    p_adjusted: float | None = None
    """``p_fails`` after the correction for all gates of the family."""
    notes: tuple[str, ...] = ()  # remarks about these numbers, one line each
    policy: Policy = "warn"  # meaning of the outcome if it is inconclusive
    early: bool = False  # whether it was decided before all documents were run
    fails_alone: bool = False
    """Whether it is inconclusive only because of the correction for the other gates of
    its family."""
    left_out: bool = False
    """Whether it was not judged because its conditions on model and machine do not
    hold."""
    mark: Literal["", "xfail", "xpass"] = ""
    """``xfail`` if it was expected to fail and did, ``xpass`` if it did not."""

    @property
    def value(self) -> float | None:
        """The number that was judged; for a baseline gate, the change. ``None`` if
        missing."""
        if self.change is not None:
            return self.change.difference
        estimate = self.metric and self.metric.estimate
        return estimate.value if estimate else None

    @property
    def low(self) -> float | None:
        """One-sided lower confidence limit, ``None`` if the number was compared."""
        return self.interval.low if self.interval else None

    @property
    def high(self) -> float | None:
        """One-sided upper confidence limit, ``None`` if the number was compared."""
        return self.interval.high if self.interval else None

    def is_about(self, task: str, key: str) -> bool:
        """Whether the gate judges this metric of a task or group."""
        return (self.gate.task, self.metric and self.metric.key) == (task, key)

    @property
    def shown_limits(self) -> str:
        """The confidence limits of the number, as text; empty for a change, an early
        verdict and a gate that compares the number."""
        if self.interval is None or self.change is not None or self.early:
            return ""
        return f"{self.gate.ci} [{self.interval.low:.4g}, {self.interval.high:.4g}]"

    @property
    def p_value(self) -> float | None:
        """One-sided p-value of the outcome; the smaller one of both sides if it is
        inconclusive, ``None`` if the number was compared."""
        if self.outcome is Outcome.PASSED:
            return self.p_passes
        if self.outcome is Outcome.FAILED:
            return self.p_fails
        p_values = [p for p in (self.p_passes, self.p_fails) if p is not None]
        return min(p_values, default=None)

    @property
    def is_red(self) -> bool:
        """Whether it fails the session."""
        if self.gate.advisory:
            return False
        if self.outcome is Outcome.INCONCLUSIVE:
            return self.policy == "fail"
        return self.outcome in (Outcome.FAILED, Outcome.INVALID)
