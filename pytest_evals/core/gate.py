"""A claim about a metric, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Any, Literal, NamedTuple

from pytest_evals.core.metric import MetricResult
from pytest_evals.errors import Place

Scope = Literal["run", "benchmark", "population"]
"""Which noise a gate counts: none, that of another run, that of other documents."""
Policy = Literal["warn", "fail", "pass"]
"""What becomes of a gate whose verdict is open."""
Unit = Literal["points", "percent", "plain"]
"""How a change is shown: a hundredth of a share is a point; percent are of the
baseline; all else stands as it is."""
Weights = Literal["", "size", "equal"] | tuple[tuple[str, Decimal], ...]
"""How much each task of a group counts: as the group's own number has it, by its
documents, all alike, or as said by name."""

DOCUMENT_KEYS = ("must_pass", "every")
"""Keys of conditions on documents; each is a field of :class:`Gate`."""


@dataclass(frozen=True, slots=True)
class Bound:
    """One side of a claim. The number is kept as it was typed, so that 0.7 is 7/10 and
    not a float near it."""

    op: Literal[">=", ">", "<=", "<"]
    value: Decimal

    def __str__(self) -> str:
        """The bound as typed: ``>= 0.75``."""
        return f"{self.op} {self.value}"


@dataclass(frozen=True, slots=True)
class Margin:
    """How far a metric may be worse than in a baseline.

    Args:
        key: As typed. ``recovery`` is the share of the baseline's value that must be
            kept.
        value: As typed, never negative; a percentage is a share.
        relative: Whether the value is a share of the baseline's.
    """

    key: Literal["max_drop", "max_rise", "recovery"]
    value: Decimal
    relative: bool = False

    @property
    def sign(self) -> int:
        """1 if it bounds falls, -1 if it bounds rises."""
        return -1 if self.key == "max_rise" else 1

    def allowed(self, before: float) -> float:
        """The largest change for the worse, never negative, beside a value of the
        baseline."""
        if self.key == "recovery":
            return float(1 - self.value) * abs(before)
        return float(self.value) * (abs(before) if self.relative else 1.0)

    def __str__(self) -> str:
        """The margin as a claim: ``drop <= 2%``."""
        if self.key == "recovery":
            return f"recovery >= {_percent(self.value)}"
        number = _percent(self.value) if self.relative else str(self.value)
        return f"{self.key.removeprefix('max_')} <= {number}"


def _percent(share: Decimal) -> str:
    return f"{float(share * 100):g}%"


class Every(NamedTuple):
    """Answers to each document that must be correct: at least ``least`` of ``n``."""

    least: int
    n: int

    def __str__(self) -> str:
        """As typed: ``8 of 10``."""
        return f"{self.least} of {self.n}"


class Published(NamedTuple):
    """A number that was measured elsewhere.

    Args:
        value: As typed.
        n: Documents that it was measured on, ``None`` if unknown.
        protocol: How it was measured, key by key (``num_fewshot``, ``limit`` …).
    """

    value: Decimal
    n: int | None = None
    protocol: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """A claim about one metric of one task, or about documents that must be right.

    Args:
        id: Last part of its node id; unique within the task.
        task: Name of the task.
        metric: Name of the metric.
        filter: Name of the filter pipeline; empty when the metric exists under one
            filter only.
        bounds: All must hold; without any, and without a baseline or documents, the
            claim is that there is such a number.
        must_pass: Ids of documents that must be correct.
        must_pass_share: Share of the answers to each of these that must be correct; 1
            counts the score of the document itself.
        every: Answers to each document of the task that must be correct.
        over: Which noise counts: none, that of another run on the same documents, or
            that of other documents of the same kind.
        confidence: Of each bound of the interval, where noise counts.
        flip_rate: Share of documents whose answer turns between two runs of one model,
            ``None`` if unknown.
        names_target: Whether its entry names the inference target, by ``over`` or
            ``noise``.
        measured: Whether a share that was measured may stand in where it is unknown.
        inconclusive: What an open verdict means; empty for the session's policy.
        baseline: Name of the stored run that it is held against; empty for a bound on
            the number itself.
        margin: How far it may be worse than there; set if ``baseline`` or
            ``published`` is.
        published: A published number that it is compared with.
        cluster: Field of the documents' rows: those that share its value hang together
            (questions on one passage, say); empty if they do not.
        weights: Of a group's tasks.
        each: Alarms on each task of a group: how far any one of them may be worse.
        family: Gates whose failures are corrected together for their number; empty for
            the gates of its task or group, ``none`` for no correction.
        reducer: How the answers to one document become one value, where the task asks
            several times; empty for whatever its filters choose.
        when: Conditions on model and machine: a key and its patterns, one of which must
            match. A gate whose conditions do not hold is not judged.
        text: The claim as written, for headings.
        source: Where it was written.
        is_anchor: Whether its baseline is the anchor of another gate.
        foreign: Whether it was written for another program: then what is wrong with it
            is a warning before the run, and no error.
    """

    id: str
    task: str
    metric: str = ""
    filter: str = ""
    bounds: tuple[Bound, ...] = ()
    must_pass: tuple[str, ...] = ()
    must_pass_share: Decimal = Decimal(1)
    every: Every | None = None
    over: Scope = "run"
    confidence: float = 0.95
    flip_rate: float | None = None
    measured: bool = True
    names_target: bool = False
    inconclusive: Policy | Literal[""] = ""
    baseline: str = ""
    margin: Margin | None = None
    published: Published | None = None
    cluster: str = ""
    weights: Weights = ""
    each: Margin | None = None
    family: str = ""
    reducer: str = ""
    when: tuple[tuple[str, tuple[str, ...]], ...] = ()
    text: str = ""
    source: Place
    is_anchor: bool = False
    foreign: bool = False

    @property
    def is_about_documents(self) -> bool:
        """Whether it checks single documents and not a metric."""
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
    """Where a number lies, as far as its noise goes.

    Args:
        low: One-sided lower bound.
        high: One-sided upper bound.
        method: How both were obtained.
    """

    low: float
    high: float
    method: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A metric beside its baseline, over the same documents.

    Args:
        baseline: What the baseline is called.
        before: The metric's value there.
        now: Its value in this run.
        difference: How far it has moved, as it is compared: ``now - before``, or
            ``now / before - 1`` where ``unit`` is percent of a ratio.
        op: Whether it must stay above its bar or below.
        bar: What it must keep to, on the same scale.
        unit: How all three are shown.
        n: Documents that were paired.
        gained: Documents that were wrong and are right now; ``None`` where documents
            are neither.
        lost: The reverse.
    """

    baseline: str
    before: float
    now: float
    difference: float
    op: Literal[">=", "<="]
    bar: float
    unit: Unit
    n: int
    gained: int | None = None
    lost: int | None = None


class Outcome(StrEnum):
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
        interval: What was held against the bounds, where noise counts; of a baseline
            gate, the interval of the change.
        change: What a baseline gate has found.
        p_fails: One-sided p-value of "the condition is broken": small values are
            evidence for it. ``None`` if no noise counts, or if it cannot be broken.
        p_passes: The same of "the condition holds".
        p_adjusted: ``p_fails`` after the correction for all gates of the family.
        notes: What a reader should know of these numbers, one line each.
        has_alarms: Whether single tasks of a group are what failed it.
        policy: What it means if the outcome is inconclusive.
        early: Whether it was decided before all documents were read.
        fails_alone: Whether it is inconclusive only because of the other gates of its
            family: it would fail without them.
        left_out: Whether it was not judged because its conditions do not hold here.
    """

    gate: Gate
    outcome: Outcome
    metric: MetricResult | None = None
    short: float = 0.0
    n_short: int | None = None
    reason: str = ""
    documents: tuple[str, ...] = ()
    interval: Interval | None = None
    change: Change | None = None
    p_fails: float | None = None
    p_passes: float | None = None
    p_adjusted: float | None = None
    notes: tuple[str, ...] = ()
    has_alarms: bool = False
    policy: Policy = "warn"
    early: bool = False
    fails_alone: bool = False
    left_out: bool = False

    @property
    def value(self) -> float | None:
        """The number that was judged; of a baseline gate, the change: new - baseline.
        ``None`` if there is none."""
        if self.change is not None:
            return self.change.difference
        found = self.metric and self.metric.estimate
        return found.value if found else None

    @property
    def low(self) -> float | None:
        """One-sided lower confidence limit, ``None`` if no noise counts."""
        return self.interval.low if self.interval else None

    @property
    def high(self) -> float | None:
        """One-sided upper confidence limit, ``None`` if no noise counts."""
        return self.interval.high if self.interval else None

    def is_about(self, task: str, key: str) -> bool:
        """Whether the gate judges this metric of a task or group."""
        return (self.gate.task, self.metric and self.metric.key) == (task, key)

    @property
    def shown_limits(self) -> str:
        """The confidence limits of the number that was compared, as text; empty for a
        change, an early verdict and a gate that compares the number itself."""
        if self.interval is None or self.change is not None or self.early:
            return ""
        return f"{self.gate.ci} [{self.interval.low:.4g}, {self.interval.high:.4g}]"

    @property
    def p_value(self) -> float | None:
        """One-sided p-value of the outcome that was decided; the smaller one of both
        sides if it is inconclusive, ``None`` if no noise counts."""
        if self.outcome is Outcome.PASSED:
            return self.p_passes
        if self.outcome is Outcome.FAILED:
            return self.p_fails
        known = [p for p in (self.p_passes, self.p_fails) if p is not None]
        return min(known, default=None)

    @property
    def is_red(self) -> bool:
        """Whether it fails the session."""
        if self.outcome is Outcome.INCONCLUSIVE:
            # More gates in a family must not turn a failure into a success unasked.
            if self.fails_alone and not self.gate.inconclusive:
                return True
            return self.policy == "fail"
        return self.outcome in (Outcome.FAILED, Outcome.INVALID)
