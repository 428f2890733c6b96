"""The change since a published number."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from pytest_evals.core.gate import Gate, Published
from pytest_evals.core.result import TaskResult
from pytest_evals.gates.estimate.group import natural_spread
from pytest_evals.gates.observations import GroupObservations, Observations
from pytest_evals.gates.terms import (
    ChangeEstimate,
    GateEstimate,
    InvalidGateError,
)
from pytest_evals.stats.independent import IndependentDifference
from pytest_evals.stats.interval_methods import (
    ExactValue,
    IntervalEstimate,
    NormalEstimate,
    Proportion,
)


def estimate_published(
    gate: Gate, seen: Observations | GroupObservations, estimate: GateEstimate
) -> ChangeEstimate:
    """The change since a published number, with the sampling error of both.

    They are assumed to be independent samples, which is conservative if both were
    measured on the same documents.

    Raises:
        InvalidGateError: The number was measured by another protocol.
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
    limits = metric.how.known_limits if metric.how is not None else None
    is_share = estimate.count is not None or limits == (0, 1)
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
    actual: dict[str, Any] = {
        "num_fewshot": task.n_shots,
        "limit": result.n_selected if is_limited else None,
        "chat_template": bool(task.config.get("apply_chat_template"))
        or _is_chat(result),
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


def _is_chat(result: TaskResult) -> bool:
    prompts = (request for one in result.records for request in one.requests)
    first = next(prompts, None)
    text = getattr(first, "prompt", None) or getattr(first, "context", "")
    return isinstance(text, tuple)
