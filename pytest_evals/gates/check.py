"""Check gates before they are judged: conditions that always or never hold by the range
of the metric, margins on the wrong side; and
``when``, the models and machines on which a gate is judged.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from fractions import Fraction
from itertools import product
from typing import Any

from pytest_evals.core.gate import Bound, Gate, Margin, Outcome, Verdict
from pytest_evals.core.metric import POSITIVE, Span

NO_GROUP_LABELS = (
    "human labels correct the judge of one task; gate each task, or remove the labels"
)
"""Why a gate of a group cannot use a judge with human labels."""
_INSIDE = "; choose a limit inside that range"


def span_fault(gate: Gate, span: Span, scale: Span | None = None) -> str:
    """Why a gate can never fail or never pass, for any number of documents; empty if
    it can do both. ``scale`` is the range that was rescaled to ``span``, if any."""
    if gate.range is not None:
        low, high = gate.range
        if low < span.low or high > span.high:
            known = _range_text(gate.metric, span)
            return f"{known}, so its range cannot be [{low:g}, {high:g}]"
        span = Span(low, high)
    margin = gate.margin
    if margin is not None and _always_holds(margin, span):
        hint = _INSIDE
        if not margin.relative and 1 <= margin.value <= 100:  # points
            hint = f"; did you mean {margin.key}: {margin.value / 100}?"
        limits = _range_text(gate.metric, span)
        return f"{limits}, so {margin} always holds{hint}"
    for bound in gate.bounds:
        if not _holds(bound, span, at_best=True):
            hint = _converted(bound, span, scale) or _in_percent(bound, span)
            hint = hint or _INSIDE
            return f"{_range_text(gate.metric, span)}, so {bound} never holds{hint}"
    if gate.bounds and all(_holds(b, span, at_best=False) for b in gate.bounds):
        text = " and ".join(map(str, gate.bounds))
        verb = "hold" if len(gate.bounds) > 1 else "holds"
        hint = _converted(gate.bounds[0], span, scale) or _INSIDE
        return f"{_range_text(gate.metric, span)}, so {text} always {verb}{hint}"
    return ""


def _always_holds(margin: Margin, span: Span) -> bool:
    """Whether every possible change for the worse is within the margin."""
    if margin.key == "recovery":
        return False
    if margin.relative:
        # A value that is never negative cannot drop by more than itself.
        return margin.sign > 0 and span.low >= 0 and margin.value >= 1
    width = span.high - span.low
    return math.isfinite(width) and Fraction(margin.value) >= Fraction(width)


def _converted(bound: Bound, span: Span, scale: Span | None) -> str:
    """A suggestion: the threshold in the stored range, if it is on the scale."""
    value = float(bound.value)
    if scale is None or scale == span or not scale.low <= value <= scale.high:
        return ""
    share = (value - scale.low) / (scale.high - scale.low)
    stored = span.low + share * (span.high - span.low)
    if stored == value:
        return ""
    text = f"values from {scale.low:g} to {scale.high:g} are stored in that range"
    return f"; {text}, did you mean {bound.op} {stored:.4g}?"


def _holds(bound: Bound, span: Span, *, at_best: bool) -> bool:
    """Whether the condition holds at the best or the worst end of the range."""
    value = span.high if bound.is_lower is at_best else span.low
    if math.isinf(value):
        return (value > 0) is bound.is_lower
    edge, exact = Fraction(bound.value), Fraction(value)
    if exact == edge:
        return "=" in bound.op
    return (exact > edge) is bound.is_lower


def _range_text(metric: str, span: Span) -> str:
    if span == POSITIVE:
        return f"{metric} is above 0"
    low, high = f"{span.low:g}", f"{span.high:g}"
    if span.low == span.high:
        return f"{metric} is always {low}"
    if math.isinf(span.high):
        return f"{metric} is {low} or more"
    if math.isinf(span.low):
        return f"{metric} is {high} or less"
    return f"{metric} is between {low} and {high}"


def _in_percent(bound: Bound, span: Span) -> str:
    """A suggestion: the number in percent, if that is a possible threshold."""
    percent = span.low <= float(bound.value) / 100 <= span.high
    is_share = span.high == 1 and 1 < bound.value <= 100
    return f"; did you mean {bound.op} {bound.value}%?" if percent and is_share else ""


def direction_fault(gate: Gate, higher_is_better: bool | None) -> str:
    """Why the margin, or the tolerance of a value, is on the wrong side; empty if not,
    or without direction."""
    margin = gate.margin
    if gate.expected is not None and higher_is_better is not None:
        if higher_is_better in [bound.is_lower for bound in gate.bounds]:
            return ""
        side, way = ("below", "higher") if higher_is_better else ("above", "lower")
        return f"{way} is better for {gate.metric}: use tolerance: {{{side}: …}}"
    if margin is None or higher_is_better in (None, margin.sign > 0):
        return ""
    fit, way = ("max_drop", "higher") if higher_is_better else ("max_rise", "lower")
    return f"{way} is better for {gate.metric}: use {fit}, not {margin.key}"


def labels_fault(gate: Gate) -> str:
    """Why a gate cannot use human labels of a judge; empty if it can."""
    odd: dict[str, object] = {
        "baseline": gate.baseline,
        "reference": gate.published,
        "reducer": gate.reducer,
        "over: benchmark": gate.over == "benchmark",
    }
    key = next((key for key, value in odd.items() if value), "")
    if not key:
        return ""
    return (
        f"{key} cannot be used with human labels, which rate the answers of one run; "
        "to gate on the judge's own ratings, add the judge a second time under another "
        "name, without labels"
    )


CONDITIONS = ("model", "dtype", "device", "gpu", "variant")


def machine_of(
    model: str, spec: str, info: Mapping[str, Any], given: str = ""
) -> dict[str, tuple[str, ...]]:
    """The names that conditions are compared with, the one to show first; none if
    unknown. ``spec``: the value of ``--model``, empty if it was not set. ``given``: the
    name that the user has given it, or its name among several models."""
    models = (given, model, spec, model.partition(",")[0], spec.partition(",")[0])
    device = str(info.get("device") or "")
    values = {
        "model": models,
        "dtype": (str(info.get("dtype") or "").removeprefix("torch."),),
        "device": (device, device.partition(":")[0]),
        "gpu": (str(info.get("device_name") or "") if "cuda" in device else "",),
    }
    return {key: tuple(filter(None, names)) for key, names in values.items()}


def left_out(gate: Gate, machine: Mapping[str, tuple[str, ...]]) -> Verdict | None:
    """The verdict of a gate whose conditions do not hold; ``None`` if they do.
    ``machine``: as :func:`machine_of` returns it, with the variant of its task."""
    every = (_unmet(key, named, machine.get(key, ())) for key, named in gate.when)
    unmet = "; ".join(filter(None, every))
    if not unmet:
        return None
    reason = f"when: {unmet}"
    return Verdict(gate=gate, outcome=Outcome.SKIPPED, reason=reason, left_out=True)


def _unmet(key: str, patterns: Iterable[str], names: tuple[str, ...]) -> str:
    """How a condition does not hold; empty if it does."""
    pairs = product(names, patterns)
    if any(fnmatchcase(name.lower(), one.lower()) for name, one in pairs):
        return ""
    return f"{key} is {names[0] if names else 'unknown'}, not {' or '.join(patterns)}"


def ungated(verdicts: Iterable[Verdict]) -> list[str]:
    """A warning for each task or group whose gates were all skipped by ``when``."""
    every = [*verdicts]
    judged = {one.gate.task for one in every if not one.left_out}
    return [
        f"{name}: no gate on this machine; the conditions (when) of all its gates do "
        "not hold"
        for name in dict.fromkeys(one.gate.task for one in every)
        if name not in judged
    ]
