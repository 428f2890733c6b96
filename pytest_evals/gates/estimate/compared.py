"""Estimates that compare two sources: a published number, and the answers of two runs
(agreement, flips, divergence)."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from pytest_evals.core.gate import Gate, Outcome, Published
from pytest_evals.core.metric import Estimate, MetricResult, Totals
from pytest_evals.core.record import Record
from pytest_evals.core.reference import Compared, Reference
from pytest_evals.core.request import TopLogprobs
from pytest_evals.core.result import TaskResult
from pytest_evals.core.top_logprobs import N_TOP, read_top_logprobs
from pytest_evals.gates.documents import InvalidGateError, labels_of
from pytest_evals.gates.estimate.estimate import ChangeEstimate, GateEstimate, antilog
from pytest_evals.gates.estimate.sums import (
    Labels,
    estimate_bounded,
    estimate_totals,
    ratio,
)
from pytest_evals.gates.estimate.value import estimate_proportion
from pytest_evals.stats.divergence import divergence, least_divergence
from pytest_evals.stats.independent import IndependentDifference
from pytest_evals.stats.interval_methods import (
    ExactValue,
    IntervalEstimate,
    NormalEstimate,
    Proportion,
)

_HIGHER_IS_BETTER = {"agreement": True, "flips": False, "kl": False}
_LOWER_BOUND = (
    f"a lower bound of kl: the {N_TOP} likeliest tokens at each position up to the "
    "first where the answers differ"
)


def estimate_published(
    gate: Gate, metric: MetricResult, estimate: GateEstimate
) -> ChangeEstimate:
    """The change since a published number, with the sampling error of both.

    They are treated as independent samples, which is conservative if both were measured
    on the same documents.

    Args:
        gate: A gate with a published number.
        metric: The metric.
        estimate: Its estimate in this run.
    """
    published = gate.published
    assert published is not None
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
    spread = method = None
    if estimate.spread is not None:
        new = _natural(estimate)
        old = _of_reference(published, estimate, new)
        spread, method = IndependentDifference(new, old), f"MOVER, {estimate.method}"
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
        method=method or "",
        notes=tuple(notes),
        missing=_missing(gate, metric, estimate),
        lists_all=estimate.lists_all,
        unit="points" if is_share and all(0 <= one <= 1 for one in ends) else "plain",
    )


def _missing(
    gate: Gate, metric: MetricResult, estimate: GateEstimate
) -> tuple[ChangeEstimate, ...] | None:
    if estimate.missing is None:
        return None
    return tuple(estimate_published(gate, metric, one) for one in estimate.missing)


def _natural(estimate: GateEstimate) -> IntervalEstimate:
    """On the scale of the number."""
    assert estimate.spread is not None
    if estimate.scale == "plain":
        return estimate.spread
    value = antilog(estimate.spread.value)
    return NormalEstimate(value, value * estimate.spread.stderr, estimate.n - 1)


def _of_reference(
    published: Published, estimate: GateEstimate, new: IntervalEstimate
) -> IntervalEstimate:
    """The published number with its sampling error: of a proportion the binomial one,
    else that of this run's documents."""
    value, n = float(published.value), published.n
    if n is None:
        return ExactValue(value)
    if estimate.count is not None and 0 <= value <= 1:
        return Proportion(value * n, n)
    low, high = estimate.range
    stderr = new.stderr * math.sqrt(estimate.n / n)
    return NormalEstimate(value, stderr, max(1, n - 1), low, high)


def protocol_fault(gate: Gate, result: TaskResult) -> str:
    """How this run differs from the protocol of a published number; empty if it does
    not."""
    if gate.published is None:
        return ""
    differences = []
    for key, expected in gate.published.protocol:
        actual = _actual(key, gate, result)
        if actual != expected and not (actual is None and expected in (0, False, None)):
            differences.append(f"{key} is {actual}, and {expected} for the reference")
    return "; ".join(differences)


def _actual(key: str, gate: Gate, result: TaskResult) -> Any:
    task = result.task
    if key == "num_fewshot":
        return task.n_shots
    if key == "limit":
        return result.n_selected if result.n_selected < result.n_total else None
    if key == "chat_template":
        return bool(task.config.get("apply_chat_template") or _is_chat(result))
    if key == "filter":
        return gate.filter or None
    return task.config.get("doc_to_text")


def _is_chat(result: TaskResult) -> bool:
    prompts = (request for one in result.records for request in one.requests)
    first = next(prompts, None)
    text = getattr(first, "prompt", None) or getattr(first, "context", "")
    return isinstance(text, tuple)


def estimate_compared(
    gate: Gate, result: TaskResult, reference: Reference
) -> tuple[GateEstimate, MetricResult]:
    """Agreement, flips or divergence of a run and a baseline on the same documents.

    ``agreement`` is the share of documents with the same answer or choice, ``flips``
    that of documents that became correct or wrong, and ``kl`` the mean over documents
    of KL(baseline || run) in nats: of the softmax over the choices' log-likelihoods, or
    of the next token's distribution in generated answers (:func:`_of_tokens`).

    Args:
        gate: The gate.
        result: The task in this run.
        reference: The task in the baseline.

    Raises:
        InvalidGateError: The runs cannot be compared.
    """
    if reference.fault:
        outcome = Outcome.SKIPPED if reference.is_replaced else Outcome.INVALID
        raise InvalidGateError(reference.fault, outcome)
    included = [one for one in result.records if not one.excluded]
    filter_ = gate.filter or _only_filter(gate, included)
    values: dict[int, float] = {}
    positions = _Positions()
    for record in included:
        old = reference.compared.get(record.index)
        if old is not None and record.compared is not None and not record.error:
            if gate.metric == "kl":
                value = _divergence(old, record.compared, positions)
            else:
                value = _value(gate, record, reference, filter_, old)
            if value is not None:
                values[record.index] = value
    if not values:
        raise InvalidGateError(_nothing(gate, included, reference))
    if 2 * positions.n_named < positions.n:
        raise InvalidGateError(
            "this run and the baseline give their tokens different names; kl of "
            "generated answers needs the same kind of model and the same tokenizer"
        )
    n_missing = len(included) - len(values)
    labels = labels_of(result, gate.cluster, [*values])
    found = _estimate(gate, [*values.values()], labels)
    if n_missing:
        found = replace(
            found, n_errored=n_missing, missing=_extremes(gate, found, n_missing)
        )
    if positions.n:
        found = replace(found, notes=(*found.notes, _LOWER_BOUND))
    assert found.spread is not None
    estimate = Estimate(float(found.value), found.spread.stderr)
    metric = MetricResult(
        name=gate.metric,
        filter=filter_,
        estimate=estimate,
        n_scored=len(values),
        n_errored=n_missing,
        total=found.count,
        higher_is_better=_HIGHER_IS_BETTER[gate.metric],
    )
    return found, metric


def _only_filter(gate: Gate, records: Sequence[Record]) -> str:
    filters = [*dict.fromkeys(key for one in records for key in _filters(one))]
    if len(filters) > 1:
        names = ", ".join(repr(f"{gate.metric},{one}") for one in filters)
        raise InvalidGateError(f"the task has several filters: name one of {names}")
    return filters[0] if filters else "none"


def _filters(record: Record) -> Iterator[str]:
    yield from record.compared.answers if record.compared else ()


def _value(
    gate: Gate, record: Record, reference: Reference, filter_: str, old: Compared
) -> float | None:
    """The document's value; ``None`` if it has none in one of the runs."""
    new = record.compared
    assert new is not None
    if gate.metric == "agreement":
        if filter_ not in old.answers or filter_ not in new.answers:
            return None
        return float(old.answers[filter_] == new.answers[filter_])
    for score in record.scores:
        was = reference.values.get(score.key, {}).get(record.index)
        if score.correct is not None and score.filter == filter_ and was is not None:
            return float(score.value != was)
    return None


@dataclass(slots=True)
class _Positions:
    """Tokens of generated answers that were compared, and how many of them have a
    common name in both tops."""

    n: int = 0
    n_named: int = 0


def _divergence(old: Compared, new: Compared, positions: _Positions) -> float | None:
    """KL(old || new) in nats; ``None`` if there is nothing to compute it from."""
    if old.top_logprobs and new.top_logprobs:
        return _of_tokens(old.top_logprobs, new.top_logprobs, positions)
    n = len(new.logprobs)
    if n < 2 or len(old.logprobs) < n:
        return None
    return divergence(old.logprobs[:n], new.logprobs)


def _of_tokens(old: str, new: str, positions: _Positions) -> float | None:
    """The mean over tokens of a lower bound of KL(old || new).

    The tokens up to the first where the answers differ are compared, with that one:
    after it, the two models have read different texts.
    """
    found = []
    pairs = zip(_read(old), _read(new), strict=False)
    for (was, before), (now, after) in pairs:
        if not before or not after:
            break
        first, second = dict(before), dict(after)
        found.append(least_divergence(first, second))
        positions.n_named += not first.keys().isdisjoint(second)
        if was != now or not was:
            break
    positions.n += len(found)
    return math.fsum(found) / len(found) if found else None


def _read(compact: str) -> TopLogprobs:
    try:
        return read_top_logprobs(json.loads(compact))
    except (TypeError, ValueError) as error:
        what = "the top_logprobs of a document in the baseline are damaged"
        raise InvalidGateError(f"{what}: {error}") from None


def _nothing(gate: Gate, records: Sequence[Record], reference: Reference) -> str:
    """Why no document can be compared, and what to do."""
    what = {
        "kl": "log-likelihoods of two or more choices",
        "agreement": "an answer",
        "flips": "a correct or wrong result",
    }[gate.metric]
    if gate.metric == "kl" and not any(
        one.compared and one.compared.logprobs for one in records
    ):
        if not any(one.compared and one.compared.top_logprobs for one in records):
            return (
                "the model returns no top log-probabilities of generated tokens, which "
                "kl needs; hf: models and openai: servers with logprobs do (not with "
                "beam search, nor in dialogues); --evals-cache=refresh sends requests "
                "again whose stored responses have none"
            )
        return (
            f"{reference.baseline!r} has no top log-probabilities of generated tokens, "
            "which kl needs; save it again with this gate: "
            f"--evals-save-baseline={reference.baseline}"
        )
    return f"no document has {what} in both this run and {reference.baseline!r}"


def _estimate(gate: Gate, values: list[float], labels: Labels) -> GateEstimate:
    n = len(values)
    if gate.metric != "kl":
        count = int(sum(values))
        found = estimate_proportion(count, n, values, labels)
        return replace(found, value=Fraction(count, n), n=n, count=count)
    if len({*values}) == 1:
        # Equal values have no variance; another document is taken to differ by log 2
        # more at most, so that the number of documents counts.
        found = estimate_bounded(values, labels, (0.0, values[0] + math.log(2)))
        return replace(found, n=n, method=f"{found.method}, up to log 2")
    totals = Totals(columns=(values, [1.0] * n), score=ratio, is_ratio=True)
    try:
        found = estimate_totals(totals, labels)
    except ValueError as error:
        raise InvalidGateError(f"kl has no confidence limits: {error}") from error
    return replace(found, n=n, range=(0.0, math.inf))


def _extremes(
    gate: Gate, found: GateEstimate, n_missing: int
) -> tuple[GateEstimate, ...] | None:
    """With all documents that cannot be compared at 0, and at 1."""
    if found.count is None or gate.cluster:
        return None
    n = found.n + n_missing
    return tuple(
        replace(estimate_proportion(count, n, (), None), value=Fraction(count, n), n=n)
        for count in (found.count, found.count + n_missing)
    )
