"""What the steps of a gate hand on: conditions, estimates and decisions, and how their
numbers are written. Rounding never moves a number to the other side of the threshold
shown next to it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal, NamedTuple

from pytest_evals.core.gate import Gate, Interval, Margin, Outcome, Unit, Verdict
from pytest_evals.core.metric import MetricResult
from pytest_evals.stats.interval_methods import ExactValue, IntervalEstimate
from pytest_evals.stats.paired_proportions import PairedProportions

Value = Fraction | float
NO_VARIANCE = "no document differs"  # the method of an estimate without variance
_RELATIVE, _ABSOLUTE = 1e-12, 1e-15
_LARGEST_LOG = 700.0  # larger exponents overflow a double
MOST_DIGITS = 15  # digits after the decimal point that a double can distinguish near 1


class InvalidGateError(Exception):
    """The gate cannot be evaluated. Each step may raise it;
    :mod:`pytest_evals.gates.judge` turns it into a verdict with this reason and
    outcome."""

    def __init__(self, reason: str, outcome: Outcome = Outcome.INVALID) -> None:
        super().__init__(reason)
        self.reason = reason
        self.outcome = outcome

    def of_task(self, task: str) -> InvalidGateError:
        """The same error, prefixed with the name of a group's task."""
        return InvalidGateError(f"{task}: {self.reason}", self.outcome)

    def verdict(self, gate: Gate, metric: MetricResult | None = None) -> Verdict:
        """The verdict with its reason."""
        return Verdict(
            gate=gate, outcome=self.outcome, metric=metric, reason=self.reason
        )


def has_limits(gate: Gate) -> bool:
    """Whether the gate compares confidence limits instead of the number."""
    return gate.over == "population" or (
        gate.over == "benchmark" and gate.flip_rate is not None
    )


class Condition(NamedTuple):
    """One side of a gate."""

    op: Literal[">=", ">", "<=", "<"]
    threshold: Value  # on the scale of the estimate
    text: str  # as typed

    @property
    def is_lower(self) -> bool:
        """Whether it limits the number from below."""
        return self.op in (">=", ">")

    @property
    def edge(self) -> str:
        """The threshold as typed."""
        return self.text.split(" ", 1)[1]

    def holds(self, value: Value) -> bool:
        """Whether a finite number satisfies the condition."""
        side = _side(value, self.threshold)
        if side == 0:
            return self.op in (">=", "<=")
        return (side > 0) == self.is_lower

    def distance(self, value: Value) -> float:
        """The absolute distance of a number from the threshold; infinite if it exceeds
        the range of a double."""
        try:
            return abs(float(Fraction(value) - Fraction(self.threshold)))
        except (OverflowError, ValueError):  # too large, or the number is not finite
            return math.inf


def _side(value: Value, edge: Value) -> int:
    """-1 below the edge, 0 on it, 1 above."""
    if isinstance(value, Fraction) and isinstance(edge, Fraction):
        return (value > edge) - (value < edge)
    there, limit = float(value), float(edge)
    if math.isclose(there, limit, rel_tol=_RELATIVE, abs_tol=_ABSOLUTE):
        return 0
    return 1 if there > limit else -1


class Pairs(NamedTuple):
    """The paired documents of a baseline and this run."""

    positions: list[int]  # documents with a score in both
    old: list[Any]  # their values in the baseline
    new: list[Any]  # their values now
    lost: dict[int, Any]
    """Position of each document without a score now → its value in the baseline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateEstimate:
    """A number with its uncertainty."""

    value: Value  # exact if documents are counted, else a double
    n: int = 0
    count: int | None = None
    """Number of documents with value 1, ``None`` if the value is not their share."""
    n_errored: int = 0
    n_unscored: int = 0
    spread: IntervalEstimate | None = None
    """Confidence limits and p-values, on ``scale``; ``None`` if the gate compares the
    number only."""
    method: str = ""
    scale: Literal["plain", "log", "log1p"] = "plain"
    """Scale of ``spread``: that of ``value``, its logarithm, or log(1 + value)."""
    range: tuple[float, float] = (-math.inf, math.inf)
    notes: tuple[str, ...] = ()
    n_labels: int = 0
    """Number of human labels that correct a judge; confidence limits are then compared
    for every inference target."""
    n_whole: int = 0
    """Documents of the benchmark, if only a sample was run and the others are known
    from a baseline; 0 otherwise."""
    of_sample: bool = False
    """Whether the documents are a sample of the benchmark that the baseline does not
    complete."""
    judge_limits: tuple[float, float] = (-math.inf, math.inf)
    """Confidence limits over this run's documents, which cover the judge's error
    only."""

    @property
    def is_share(self) -> bool:
        """Whether it is a share of documents: each value is 0 or 1, and the metric's
        range is known to be that."""
        return self.count is not None and self.range == (0.0, 1.0)

    @property
    def n_missing(self) -> int:
        """Documents without a score."""
        return self.n_errored + self.n_unscored

    def limits(self, confidence: float) -> Interval:
        """Both confidence limits, each one-sided at that confidence."""
        assert self.spread is not None
        low, high = self.spread.interval(confidence)
        least, most = self.range
        low, high = max(least, self._natural(low)), min(most, self._natural(high))
        return Interval(low, high, self.method)

    def p_less(self, threshold: float) -> float:
        """One-sided p-value: small values are evidence that the true number is less
        than the threshold."""
        assert self.spread is not None
        return self.spread.p_less(self._scaled(threshold))

    def p_greater(self, threshold: float) -> float:
        """One-sided p-value: small values are evidence that it is greater."""
        assert self.spread is not None
        return self.spread.p_greater(self._scaled(threshold))

    def _natural(self, number: float) -> float:
        if self.scale == "plain":
            return number
        if number > _LARGEST_LOG:
            return math.inf
        return math.exp(number) if self.scale == "log" else math.expm1(number)

    def _scaled(self, number: float) -> float:
        if self.scale == "plain":
            return number
        inner = number if self.scale == "log" else 1 + number
        return math.log(inner) if inner > 0 else -math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeEstimate(GateEstimate):
    """The change of a metric over the same documents: ``now - before``, or ``now /
    before - 1`` if ``scale`` is ``log1p``."""

    before: Value  # value in the baseline; exact if documents are counted
    now: Value
    shares: PairedProportions | None = None
    """Documents with value 1 in one run only, if each value is 0 or 1."""
    unit: Unit = "plain"
    pairs: Pairs | None = None


def without_variance(value: float) -> GateEstimate:
    """An estimate of a number without variance between documents."""
    return GateEstimate(value=value, spread=ExactValue(value), method=NO_VARIANCE)


def antilog(value: float) -> float:
    """The exponential of a number, infinite if a double cannot represent it."""
    return math.exp(value) if value <= _LARGEST_LOG else math.inf


def conditions_of(gate: Gate, estimate: GateEstimate) -> list[Condition]:
    """The conditions of a gate on the scale of its estimate."""
    if gate.margin is not None and isinstance(estimate, ChangeEstimate):
        return [_margin_condition(gate.margin, estimate)]
    return [Condition(b.op, Fraction(b.value), str(b)) for b in gate.bounds]


def _margin_condition(margin: Margin, estimate: ChangeEstimate) -> Condition:
    """The smallest or largest change that a margin allows."""
    before, threshold = estimate.before, Fraction(margin.value)
    if margin.key == "recovery":
        threshold = 1 - threshold
    if estimate.scale == "log1p":
        # Relative to the baseline's value, like the estimate.
        allowed: Value = margin.allowed(float(before)) / float(before)
        allowed = min(allowed, 1.0) if margin.sign > 0 else allowed
    elif isinstance(before, Fraction):
        allowed = threshold * abs(before) if margin.relative else threshold
    else:
        allowed = float(threshold) * (abs(before) if margin.relative else 1.0)
    op: Literal[">=", "<="] = ">=" if margin.sign > 0 else "<="
    return Condition(op, -margin.sign * allowed, str(margin))


def compares_limits(gate: Gate, estimate: GateEstimate) -> bool:
    """Whether confidence limits decide the gate, and not the number."""
    if estimate.n_whole or estimate.of_sample:
        return True
    if estimate.spread is None or (gate.over == "run" and not estimate.n_labels):
        return False
    return has_limits(gate) or not isinstance(estimate, ChangeEstimate)


def p_fails(conditions: Sequence[Condition], estimate: GateEstimate) -> float | None:
    """One-sided p-value of a failure; ``None`` if no condition can fail."""
    least, most = estimate.range
    able = (
        one
        for one in conditions
        if (one.threshold > least if one.is_lower else one.threshold < most)
    )
    return min(
        (_p_value(one, estimate, less=one.is_lower) for one in able), default=None
    )


def p_passes(conditions: Sequence[Condition], estimate: GateEstimate) -> float:
    """One-sided p-value of a pass."""
    return max(_p_value(one, estimate, less=not one.is_lower) for one in conditions)


def _p_value(condition: Condition, estimate: GateEstimate, *, less: bool) -> float:
    edge = float(condition.threshold)
    return estimate.p_less(edge) if less else estimate.p_greater(edge)


class Decision(NamedTuple):
    """The outcome of a gate."""

    outcome: Outcome
    conditions: tuple[Condition, ...] = ()
    condition: Condition | None = None
    """The one that decided it; ``None`` for gates without conditions."""
    interval: Interval | None = None
    """The confidence limits, ``None`` if the number was compared."""
    p_fails: float | None = None
    """One-sided p-value of "all conditions hold": small values are evidence of a
    failure; ``None`` if the number was compared or no condition can fail."""
    p_passes: float | None = None


def figure(value: float) -> str:
    """Three digits after the decimal point; three significant digits for tiny numbers,
    six for huge ones."""
    if not math.isfinite(value):
        return str(value)
    if value and abs(value) < 0.001:
        return f"{value:.3g}"
    return f"{value:.6g}" if abs(value) >= 1e6 else f"{value:.3f}"


def figure_beside(value: float, threshold: Decimal | Fraction) -> str:
    """The number with enough digits to show its side of the threshold: 0.74996 next to
    0.75, not 0.750."""
    text = figure(value)
    if not math.isfinite(value) or value == float(threshold):
        return text
    edge, above = Fraction(threshold), value > float(threshold)
    for digits in range(3, MOST_DIGITS + 1):
        shown = Fraction(text)
        if shown != edge and (shown > edge) == above:
            return text
        text = f"{value:.{digits + 1}f}"
    return repr(value)


def shown_change(difference: float, unit: Unit, bar: float | None = None) -> str:
    """A signed change, with enough digits to show its side of the threshold. ``bar``:
    the threshold next to it; ``None`` for none."""
    if unit == "plain":
        sign = "-" if difference < 0 else "+"
        return f"{sign}{figure(abs(difference))}"
    for digits in range(2, MOST_DIGITS):
        text = f"{100 * difference:+.{digits}f}"
        if bar is None or difference == bar or not math.isfinite(bar):
            break
        if text != f"{100 * bar:+.{digits}f}":
            break
    return f"{text}%" if unit == "percent" else text


def suffix(unit: Unit) -> str:
    """The unit after a number."""
    return " points" if unit == "points" else ""


def percent(share: float) -> str:
    """Whole percent; ``<1%`` for less that is not 0."""
    return "<1%" if 0 < share < 0.005 else f"{100 * share:.0f}%"


def missing_counts(n_errored: int, n_unscored: int) -> list[str]:
    """The numbers of documents without a score, by reason."""
    counts = [(n_errored, "errored"), (n_unscored, "unscored")]
    return [f"{n} {word}" for n, word in counts if n]


def missing_count(n_errored: int, n_unscored: int) -> str:
    """These numbers in parentheses; empty if all documents have a score."""
    parts = missing_counts(n_errored, n_unscored)
    return f" ({', '.join(parts)})" if parts else ""
