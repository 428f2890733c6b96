"""Format numbers and changes. Rounding never moves a number to the other side of the
threshold shown next to it.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

from pytest_evals.core.gate import Change, Gate, Unit
from pytest_evals.core.metric import MetricResult
from pytest_evals.stats.interval_methods import Proportion
from pytest_evals.stats.power import documents_for

FEW = 5
"""Correct or wrong answers from which on the standard error is shown."""
MOST_DIGITS = 15
"""Digits after the decimal point that a double can distinguish near 1."""


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


def shown_bar(change: Change) -> str:
    """The threshold with its operator: ``>= -2.00 points``."""
    shown = shown_change(change.bar, change.unit)
    return f"{change.op} {shown}{suffix(change.unit)}"


def suffix(unit: Unit) -> str:
    """The unit after a number."""
    return " points" if unit == "points" else ""


def change_text(change: Change) -> str:
    """Both values and their difference: ``0.853 vs main 0.848: +0.53``."""
    moved = shown_change(change.difference, change.unit, change.bar)
    return f"{figure(change.now)} vs {change.baseline} {figure(change.before)}: {moved}"


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


def offer_of_assumption(gate: Gate, margin: float, width: float) -> str:
    """The number of documents that a baseline gate would need with ``largest_drop``,
    half of the width of the range; empty if it has the key, or no use for it."""
    assumed = width / 2
    if gate.largest_drop is not None or gate.margin is None or gate.margin.sign < 0:
        return ""
    if not 0 < margin < assumed < math.inf:
        return ""
    n = documents_for(1 - gate.confidence, margin / assumed)
    return (
        f"; from {n:,} on if you can assume that no document loses more than "
        f"{assumed:g} (largest_drop: {assumed:g})"
    )


def shown_noise(metric: MetricResult | None) -> str:
    """The standard error of a number that no gate compares; the exact confidence
    interval of a proportion with few correct or few wrong answers, of which the
    standard error is too small; empty for a single document."""
    if metric is None or metric.estimate is None or metric.n_scored == 1:
        return ""
    count, n = metric.total, metric.n_scored
    if count is not None and min(count, n - count) < FEW:
        found = Proportion(count, n).interval(0.95)
        return f"90% CI [{figure(found.low)}, {figure(found.high)}]"
    stderr = metric.estimate.stderr
    return "" if stderr is None else f"± {figure(stderr)}"
