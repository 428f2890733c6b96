"""The estimate of a group: a weighted mean of its tasks' metrics or changes.

Tasks are independent samples: strata, if their scores are in a known range. The
variance of other sums is that of the tasks, weighted by the squared weights.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from pytest_evals.core.gate import Gate, Published, Unit
from pytest_evals.core.result import TaskResult
from pytest_evals.gates.observations import GateDocuments, Member, Observations
from pytest_evals.gates.terms import (
    ChangeEstimate,
    GateEstimate,
    InvalidGateError,
    Value,
)
from pytest_evals.stats.independent import IndependentDifference, weighted_sum
from pytest_evals.stats.interval_methods import (
    ExactValue,
    IntervalEstimate,
    NormalEstimate,
    Proportion,
)
from pytest_evals.stats.paired_proportions import PairedProportions


def combined(
    gate: Gate, members: Sequence[Member], estimates: Sequence[GateEstimate]
) -> GateEstimate:
    """The weighted mean of the tasks' values or changes."""
    names, weights = [m.seen.task for m in members], [m.weight for m in members]
    changes = [one for one in estimates if isinstance(one, ChangeEstimate)]
    if changes:
        return combined_change(names, changes, weights)
    whole = GateEstimate(
        value=_mean(weights, [one.value for one in estimates]), range=_common(estimates)
    )
    if any(one.spread is None for one in estimates):
        return whole
    spread = _sum(estimates, weights)
    if isinstance(spread, ExactValue) and gate.over == "population":
        message = (
            f"{members[0].seen.metric.key} is the same in all documents of each task"
        )
        raise InvalidGateError(message)
    return replace(
        whole,
        spread=spread,
        method=f"{len(members)} tasks combined",
        notes=_notes(names, estimates),
    )


def combined_change(
    names: Sequence[str], changes: Sequence[ChangeEstimate], weights: Sequence[Fraction]
) -> ChangeEstimate:
    """The weighted mean of the changes of several tasks."""
    before = _mean(weights, [one.before for one in changes])
    now = _mean(weights, [one.now for one in changes])
    spread = _sum(changes, weights)
    units: set[Unit] = {one.unit for one in changes}
    shares = [one.shares for one in changes if one.shares is not None]
    n = sum(one.n for one in changes)
    gained, lost = (sum(one[i] for one in shares) for i in (0, 1))
    counted = (
        PairedProportions(gained, lost, n) if len(shares) == len(changes) else None
    )
    exact = isinstance(before, Fraction) and isinstance(now, Fraction)
    return ChangeEstimate(
        value=now - before if exact else spread.value,
        n=n,
        before=before,
        now=now,
        spread=spread,
        method=f"paired, {len(changes)} tasks combined",
        notes=_notes(names, changes),
        shares=counted,
        unit="points" if units == {"points"} else "plain",
        range=_common(changes),
    )


def _sum(
    estimates: Sequence[GateEstimate], weights: Sequence[Fraction]
) -> IntervalEstimate:
    spreads, sizes = map(natural_spread, estimates), [one.n for one in estimates]
    return weighted_sum([*spreads], [*map(float, weights)], sizes)


def _common(estimates: Sequence[GateEstimate]) -> tuple[float, float]:
    """The range of a mean of numbers in these ranges."""
    lows, highs = zip(*(one.range for one in estimates), strict=True)
    return (min(lows), max(highs))


def natural_spread(estimate: GateEstimate) -> IntervalEstimate:
    """The uncertainty on the scale of the number, for perplexities by the delta method:
    they are averaged, not their logarithms."""
    assert estimate.spread is not None
    if estimate.scale == "plain":
        return estimate.spread
    value = slope = float(estimate.value)
    if isinstance(estimate, ChangeEstimate):
        value, slope = float(estimate.now - estimate.before), float(estimate.now)
    return NormalEstimate(value, slope * estimate.spread.stderr, estimate.n - 1)


def _notes(names: Sequence[str], estimates: Sequence[GateEstimate]) -> tuple[str, ...]:
    """The notes of each task, prefixed with its name."""
    return tuple(
        f"{name}: {note}"
        for name, one in zip(names, estimates, strict=True)
        for note in one.notes
    )


def _mean(weights: Sequence[Fraction], values: Sequence[Value]) -> Value:
    """Exact if all values are."""
    if all(isinstance(value, Fraction) for value in values):
        pairs = zip(weights, values, strict=True)
        return sum((w * Fraction(v) for w, v in pairs), Fraction(0))
    return math.fsum(float(w) * float(v) for w, v in zip(weights, values, strict=True))


def estimate_published(
    gate: Gate, seen: GateDocuments, estimate: GateEstimate
) -> ChangeEstimate:
    """The change since a published number, with the sampling error of both.

    They are assumed to be independent samples, which is conservative if both were
    measured on the same documents.
    """
    published, metric = gate.published, seen.metric
    assert published is not None
    result = seen.result if isinstance(seen, Observations) else None
    if result is not None and (fault := _protocol_fault(gate, published, result)):
        raise InvalidGateError(f"not comparable with the reference: {fault}")
    before = Fraction(published.value)
    notes = [*estimate.notes]
    if published.n is None:
        notes.append(
            "the sampling error of the reference is unknown and not counted; set "
            "reference_n to its number of documents"
        )
    elif estimate.spread is not None:
        notes.append(
            "reference and run are treated as independent samples, which is "
            "conservative on the same documents"
        )
    spread = None
    if estimate.spread is not None:
        new = natural_spread(estimate)
        spread = IndependentDifference(new, _of_reference(published, estimate, new))
    exact = isinstance(estimate.value, Fraction)
    now = estimate.value
    ends = (float(now), float(before))
    is_share = estimate.count is not None or metric.known_limits == (0, 1)
    return ChangeEstimate(
        value=now - before if exact else float(now) - float(before),
        n=estimate.n,
        n_errored=estimate.n_errored,
        n_unscored=estimate.n_unscored,
        before=before if exact else float(before),
        now=now,
        spread=spread,
        method=f"MOVER, {estimate.method}" if spread else "",
        notes=tuple(notes),
        unit="points" if is_share and all(0 <= one <= 1 for one in ends) else "plain",
    )


def _of_reference(
    published: Published, estimate: GateEstimate, new: IntervalEstimate
) -> IntervalEstimate:
    """The published number with its sampling error: binomial for a proportion, else
    that of this run's documents."""
    value, n = float(published.value), published.n
    if n is None:
        return ExactValue(value)
    if estimate.is_share and 0 <= value <= 1:
        return Proportion(value * n, n)
    low, high = estimate.range
    stderr = new.stderr * math.sqrt(estimate.n / n)
    return NormalEstimate(value, stderr, max(1, n - 1), low, high)


def _protocol_fault(gate: Gate, published: Published, result: TaskResult) -> str:
    """How this run differs from the protocol of the published number; empty if it does
    not."""
    stated, task = dict(published.protocol), result.task
    if "choices" in task.config:
        # Unless stated otherwise, published numbers are from log-probabilities.
        stated.setdefault("choices", "loglikelihood")
    is_limited = result.n_selected < result.n_total
    first = next((request for one in result.records for request in one.requests), None)
    prompt = getattr(first, "prompt", None) or getattr(first, "context", "")
    is_chat = isinstance(prompt, tuple)
    actual: dict[str, Any] = {
        "num_fewshot": task.n_shots,
        "limit": result.n_selected if is_limited else None,
        "chat_template": bool(task.config.get("apply_chat_template")) or is_chat,
        "filter": gate.filter or None,
        "choices": task.config.get("choices", "loglikelihood"),
        "template": task.config.get("doc_to_text"),
    }
    return "; ".join(
        f"{key} is {actual[key]}, and {expected} for the reference"
        for key, expected in stated.items()
        if actual[key] != expected
        and not (actual[key] is None and expected in (0, False, None))
    )
