"""Metrics of two runs: agreement of answers, flips, and the Kullback-Leibler
divergence: exact for choices, a lower bound if only the most likely tokens are known.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pytest_evals.core.gate import Gate
from pytest_evals.core.metric import Estimate, Metric, MetricResult
from pytest_evals.core.record import Record
from pytest_evals.core.reference import ComparedValues, Find, Reference
from pytest_evals.core.request import TopLogprobs
from pytest_evals.core.result import TaskResult
from pytest_evals.core.top_logprobs import N_TOP, read_top_logprobs
from pytest_evals.gates.observations import Observations, labels_in, shared_records
from pytest_evals.gates.read.entry import COMPARED
from pytest_evals.gates.terms import InvalidGateError
from pytest_evals.stats.averages import mean

_ROUNDING = 1e-6
"""Probability mass that rounded log-probabilities may lack; it lowers the bound."""
_LOWER_BOUND = (
    f"a lower bound of kl: the top {N_TOP} tokens at each position up to the "
    "first difference between the generations"
)


def observe_two_runs(
    gate: Gate, result: TaskResult, find: Find
) -> tuple[Observations, tuple[str, ...]]:
    """Agreement, flips or divergence of a run and a baseline on each document that both
    have, and notes.

    ``agreement`` is 1 for the same answer or choice, ``flips`` for a document that
    became correct or wrong, and ``kl`` is KL(baseline || run) in nats: of the softmax
    over the choices' log-likelihoods, or of the next token's distribution in
    generations (:func:`_of_tokens`).
    """
    result, reference, notes = shared_records(gate, result, find)
    included = [one for one in result.records if not one.excluded]
    filter_ = gate.filter or _only_filter(gate, included)
    positions = _Positions()
    values = _values(gate, included, reference, filter_, positions)
    if positions.n:
        notes = (*notes, _LOWER_BOUND)
    value, n = mean([*values.values()]), len(values)
    is_share, ends = gate.metric != "kl", COMPARED[gate.metric]
    metric = MetricResult(
        name=gate.metric,
        filter=filter_,
        estimate=Estimate(
            value, math.sqrt(value * (1 - value) / n) if is_share else None
        ),
        n_scored=n,
        n_errored=len(included) - n,
        total=int(sum(values.values())) if is_share else None,
        higher_is_better=gate.metric == "agreement",
        how=Metric(
            name=gate.metric,
            filter=filter_,
            aggregate=lambda given: Estimate(mean(given)),
            is_mean=True,
            limits=(0.0, math.inf) if gate.over == "run" and not is_share else ends,
        ),
    )
    seen = Observations(
        task=result.task.name,
        metric=metric,
        size=n,
        positions=[*values],
        values=[*values.values()],
        lost=[one.index for one in included if one.index not in values],
        labels=labels_in(gate.cluster, result.records),
        result=result,
    )
    return seen, notes


def _values(
    gate: Gate,
    records: Sequence[Record],
    reference: Reference,
    filter_: str,
    positions: _Positions,
) -> dict[int, float]:
    """Position → value of each document that has one in both runs."""
    values: dict[int, float] = {}
    for record in records:
        old = reference.compared.get(record.index)
        if old is not None and record.compared is not None and not record.error:
            if gate.metric == "kl":
                value = _divergence(old, record.compared, positions)
            else:
                value = _value(gate, record, reference, filter_, old)
            if value is not None:
                values[record.index] = value
    if not values:
        raise InvalidGateError(_nothing(gate, records, reference))
    if 2 * positions.n_named < positions.n:
        raise InvalidGateError(
            "this run and the baseline have different token strings; kl of generations "
            "needs the same kind of model and the same tokenizer"
        )
    return values


def _only_filter(gate: Gate, records: Sequence[Record]) -> str:
    compared = (one.compared for one in records if one.compared)
    filters = [*dict.fromkeys(name for one in compared for name in one.answers)]
    if len(filters) > 1:
        names = ", ".join(repr(f"{gate.metric},{one}") for one in filters)
        raise InvalidGateError(f"the task has several filters: name one of {names}")
    return filters[0] if filters else "none"


def _value(
    gate: Gate, record: Record, reference: Reference, filter_: str, old: ComparedValues
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
    """Number of compared tokens of generations, and how many of them have a common
    string in both top lists."""

    n: int = 0
    n_named: int = 0


def _divergence(
    old: ComparedValues, new: ComparedValues, positions: _Positions
) -> float | None:
    """KL(old || new) in nats; ``None`` if the log-probabilities are missing."""
    if old.top_logprobs and new.top_logprobs:
        return _of_tokens(old.top_logprobs, new.top_logprobs, positions)
    n = len(new.logprobs)
    if n < 2 or len(old.logprobs) < n:
        return None
    return divergence(old.logprobs[:n], new.logprobs)


def _of_tokens(old: str, new: str, positions: _Positions) -> float | None:
    """The mean over tokens of a lower bound of KL(old || new).

    Tokens are compared up to and including the first difference between the
    generations: after it, the contexts of the two models differ.
    """
    divergences = []
    for (was, before), (now, after) in zip(_read(old), _read(new), strict=False):
        if not before or not after:
            break
        first, second = dict(before), dict(after)
        divergences.append(least_divergence(first, second))
        positions.n_named += not first.keys().isdisjoint(second)
        if was != now or not was:
            break
    positions.n += len(divergences)
    return math.fsum(divergences) / len(divergences) if divergences else None


def _read(compact: str) -> TopLogprobs:
    try:
        return read_top_logprobs(json.loads(compact))
    except (TypeError, ValueError) as error:
        message = "the top_logprobs of a document in the baseline are damaged"
        raise InvalidGateError(f"{message}: {error}") from None


def _nothing(gate: Gate, records: Sequence[Record], reference: Reference) -> str:
    """Why no document can be compared, with the fix."""
    message = {
        "kl": "log-likelihoods of two or more choices",
        "agreement": "an answer",
        "flips": "a correct or wrong result",
    }[gate.metric]
    compared = [one.compared for one in records if one.compared]
    if gate.metric == "kl" and not any(one.logprobs for one in compared):
        if not any(one.top_logprobs for one in compared):
            why = (
                "the model returns no top log-probabilities of generated tokens, which "
                "kl needs; hf: models and openai: servers with logprobs do (not with "
                "beam search, nor in dialogues)"
            )
            refresh = "; --evals-cache=refresh sends requests again whose stored "
            return why if reference.fix else f"{why}{refresh}responses have none"
        fix = reference.fix or (
            f"save it again with this gate: --evals-save-baseline={reference.baseline}"
        )
        return (
            f"{reference.baseline!r} has no top log-probabilities of generated tokens, "
            f"which kl needs; {fix}"
        )
    return f"no document has {message} in both this run and {reference.baseline!r}"


def divergence(old: Sequence[float], new: Sequence[float]) -> float:
    """Return KL(old || new) in nats of the softmax of two lists of log-likelihoods."""
    before, now = _log_softmax(old), _log_softmax(new)
    total = math.fsum(
        math.exp(p) * (p - q) for p, q in zip(before, now, strict=True) if p > -math.inf
    )
    return max(0.0, total)


def _log_softmax(logprobs: Sequence[float]) -> list[float]:
    top = max(logprobs)
    norm = top + math.log(math.fsum(math.exp(one - top) for one in logprobs))
    return [one - norm for one in logprobs]


def least_divergence(old: Mapping[str, float], new: Mapping[str, float]) -> float:
    """Return a lower bound of KL(old || new) in nats, from the top of both
    distributions.

    Outcomes are merged into classes, which never increases the divergence (data
    processing inequality): each outcome in both tops is its own class, those only in
    the top of ``old`` form a second class, and all others a third. The second class has
    a known probability under ``old``. Under ``new``, each of its outcomes is at most as
    likely as the least likely outcome of the top; among the probabilities this allows,
    the one with the smallest divergence is used.

    Args:
        old: Log-probability of each of the most likely outcomes.
        new: The same for the other distribution; at least one outcome.
    """
    common = old.keys() & new.keys()
    p = {name: math.exp(old[name]) for name in old}
    q = {name: math.exp(new[name]) for name in new}
    total = math.fsum(p[name] * (old[name] - new[name]) for name in common)
    p_only = math.fsum(p[name] for name in old if name not in common)
    p_rest = max(0.0, 1 - math.fsum(p.values()))
    free = max(0.0, 1 - math.fsum(q[name] for name in common)) + _ROUNDING
    if p_only:
        n_only = len(old) - len(common)
        unlisted = max(0.0, 1 - math.fsum(q.values()))
        most = min(n_only * min(q.values()), unlisted) + _ROUNDING
        q_only = min(free * p_only / (p_only + p_rest), most)
        total += p_only * math.log(p_only / q_only)
        free -= q_only
    if p_rest:
        total += p_rest * math.log(p_rest / max(free, _ROUNDING))
    return max(0.0, total)
