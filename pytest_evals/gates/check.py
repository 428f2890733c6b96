"""Check gates before they are judged: conditions that always or never hold by the range
of the metric, margins on the wrong side; and
``when``, the models and machines on which a gate is judged.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from fractions import Fraction
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
        hint = _as_share(margin) or _INSIDE
        limits = _range_text(gate.metric, span)
        return f"{limits}, so {margin} always holds{hint}"
    for bound in gate.bounds:
        if not _holds_at(bound, _best(bound, span)):
            hint = _converted(bound, span, scale) or _in_percent(bound, span)
            hint = hint or _INSIDE
            return f"{_range_text(gate.metric, span)}, so {bound} never holds{hint}"
    always = [b for b in gate.bounds if _holds_at(b, _worst(b, span))]
    if gate.bounds and len(always) == len(gate.bounds):
        text = " and ".join(map(str, gate.bounds))
        verb = "hold" if len(always) > 1 else "holds"
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


def _as_share(margin: Margin) -> str:
    """A suggestion: the number as points."""
    if margin.relative or not 1 <= margin.value <= 100:
        return ""
    return f"; did you mean {margin.key}: {margin.value / 100}?"


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


def _best(bound: Bound, span: Span) -> float:
    return span.high if bound.op in (">=", ">") else span.low


def _worst(bound: Bound, span: Span) -> float:
    return span.low if bound.op in (">=", ">") else span.high


def _holds_at(bound: Bound, value: float) -> bool:
    """Whether the condition holds for an exact number."""
    if math.isinf(value):
        return (value > 0) == (bound.op in (">=", ">"))
    edge, exact = Fraction(bound.value), Fraction(value)
    return {
        ">=": exact >= edge,
        ">": exact > edge,
        "<=": exact <= edge,
        "<": exact < edge,
    }[bound.op]


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
    """Why the margin is on the wrong side; empty if not, or without direction."""
    margin = gate.margin
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


CONDITIONS = ("model", "dtype", "device", "gpu")


def machine_of(
    model: str, spec: str, info: Mapping[str, Any], given: str = ""
) -> dict[str, tuple[str, ...]]:
    """The names that conditions are compared with, the one to show first; none if
    unknown.

    Args:
        model: The model's name.
        spec: The value of ``--model``, empty if it was not set.
        info: The model's description.
        given: The name that the user has given it, or its name among several models.
    """
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
    ``machine``: as :func:`machine_of` returns it."""
    unmet = [
        _unmet(key, patterns, machine.get(key, ()))
        for key, patterns in gate.when
        if not any(_fits(name, patterns) for name in machine.get(key, ()))
    ]
    if not unmet:
        return None
    reason = f"when: {'; '.join(unmet)}"
    return Verdict(gate=gate, outcome=Outcome.SKIPPED, reason=reason, left_out=True)


def _fits(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name.lower(), one.lower()) for one in patterns)


def _unmet(key: str, patterns: Iterable[str], names: tuple[str, ...]) -> str:
    expected = " or ".join(patterns)
    return f"{key} is {names[0] if names else 'unknown'}, not {expected}"


def ungated(verdicts: Iterable[Verdict]) -> list[str]:
    """A warning for each task or group whose gates were all skipped by ``when``."""
    judged: dict[str, bool] = {}
    for verdict in verdicts:
        name = verdict.gate.task
        judged[name] = judged.get(name, False) or not verdict.left_out
    return [
        f"{name}: no gate on this machine; the conditions (when) of all its gates do "
        "not hold"
        for name, is_judged in judged.items()
        if not is_judged
    ]
