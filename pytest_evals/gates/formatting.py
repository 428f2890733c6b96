"""Format numbers and changes. Rounding never moves a number to the other side of the
threshold shown next to it.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

from pytest_evals.core.gate import Change, Gate, Unit
from pytest_evals.stats.power import documents_for

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
    """A signed change, with enough digits to show its side of the threshold.

    Args:
        difference: A share, or a plain number.
        bar: The threshold next to it; ``None`` for none.
    """
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


def missing_count(n_errored: int, n_unscored: int) -> str:
    """The numbers of documents without a score, by reason, in parentheses."""
    counts = [(n_errored, "errored"), (n_unscored, "unscored")]
    parts = [f"{n} {word}" for n, word in counts if n]
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
