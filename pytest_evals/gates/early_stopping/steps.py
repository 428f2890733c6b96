"""A gate's verdict as a step function of one sum over documents, if it is one, and the
expected savings of early stopping.

A share of correct answers is a sum of zeros and ones, so thresholds on it, and on its
confidence limits, change the verdict at certain sums. A ratio of counts (precision,
recall, F1) is at least T exactly if the sum of ``above - T below`` is at least 0. For
other gates, the reason is returned. The contribution of a document is scaled to be
between 0 and 1.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pytest_evals.core.gate import Bound, Gate, Outcome
from pytest_evals.core.metric import SHARE, Metric, Ratio
from pytest_evals.gates.decide import compared
from pytest_evals.gates.estimate.value import estimate_over_reruns, estimate_proportion
from pytest_evals.gates.power import USUAL_FLIPS
from pytest_evals.gates.terms import (
    ChangeEstimate,
    GateEstimate,
    conditions_of,
    has_limits,
)
from pytest_evals.stats.sequential import Urn

_RANKS = (Outcome.FAILED, Outcome.INCONCLUSIVE, Outcome.PASSED)


class VerdictBoundary(NamedTuple):
    """A change of the verdict: the sum is at least the target, or above it."""

    target: float
    strict: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """A verdict as a step function of a sum."""

    cuts: tuple[VerdictBoundary, ...]
    outcomes: tuple[Outcome, ...]
    share: Callable[[Any], float]
    """Maps a document's value to its contribution, from 0 to 1; raises ``ValueError``
    for a value outside of the known range."""
    may_lack: bool = True
    """Whether a verdict is possible with documents without a score."""
    unit: float = 0.0
    """Value of the metric per unit of the sum, for display; 0 if the sum is not
    proportional to it."""

    def urns(
        self,
        n: int,
        error: float,
        old: NDArray[np.float64] | None,
        guess: float | None = None,
    ) -> list[Urn]:
        """Tests of its cuts over ``n`` documents, which share the error rate."""
        each = error / max(1, len(self.cuts))
        return [
            Urn(n, cut.target, error=each, guess=guess, old=old, strict=cut.strict)
            for cut in self.cuts
        ]


def steps_of(
    gate: Gate, metric: Metric | None, n: int, old: Mapping[int, float] | None = None
) -> Steps | str:
    """The steps of a gate over ``n`` documents; or the reason why it has none.
    ``old``: position of a document → its value in the gate's baseline."""
    reason = _refusal(gate, metric)
    if reason or metric is None:
        return reason
    if metric.ratio is not None:
        return _ratio_steps(gate, metric, metric.ratio, n)
    if gate.baseline:
        return _paired_steps(gate, n, old or {})
    if not has_limits(gate):
        cuts = [_point(bound, Fraction(bound.value) * n) for bound in gate.bounds]
        share = _from_0_to_1
    else:
        cuts = [_noisy(replace(gate, bounds=(b,)), n) for b in gate.bounds]
        share = _0_or_1
    # Between two bounds, the full run knows the verdict at the extremes only.
    lacks = len(gate.bounds) < 2
    return Steps(**_combined(cuts), share=share, may_lack=lacks, unit=1 / n)


def _refusal(gate: Gate, metric: Metric | None) -> str:
    if metric is None and not gate.is_about_documents:
        return "its metric is unknown before the results are complete"
    paired = gate.baseline and gate.over != "run"
    alone = "does not depend on one sum alone"
    refusals = {
        "it is about single documents": gate.is_about_documents,
        "it compares with a published number": gate.published,
        "repeats are reduced first": gate.reducer,
        f"a clustered confidence interval {alone}": gate.cluster,
        f"a paired test over {gate.over} {alone}": paired,
    }
    why = next((text for text, holds in refusals.items() if holds), "")
    return why if why or metric is None else _metric_refusal(gate, metric)


def _metric_refusal(gate: Gate, metric: Metric) -> str:
    if metric.ratio is not None:
        if gate.over == "run" and not gate.baseline:
            return ""
        return (
            f"the confidence interval of {metric.name} does not depend on one sum alone"
        )
    if metric.labels is not None:
        return f"human labels correct {metric.name}"
    if not metric.is_mean:
        return f"{metric.name} is not a sum over documents with a known range"
    return _range_refusal(gate, metric)


def _range_refusal(gate: Gate, metric: Metric) -> str:
    limits = gate.range or metric.known_limits
    if limits is None:
        return f"the range of {metric.name} is unknown"
    if limits != SHARE:
        low, high = limits
        return f"{metric.name} ranges from {low:g} to {high:g}, not from 0 to 1"
    if metric.is_share or not (has_limits(gate) or gate.baseline):
        return ""
    return f"scores of {metric.name} may lie between 0 and 1"


_Turns = Sequence[tuple[VerdictBoundary | None, Outcome]]
"""The outcome of one condition above each cut, starting from the lowest sum."""


def _point(bound: Bound, target: Fraction) -> _Turns:
    low, high = Outcome.FAILED, Outcome.PASSED
    if not bound.is_lower:
        low, high = high, low
    strict = bound.op in (">", "<=")
    return [(None, low), (VerdictBoundary(float(target), strict), high)]


def _noisy(gate: Gate, n: int) -> _Turns:
    """By bisection, because the limits increase with the share."""
    rising = gate.bounds[0].is_lower

    def rank(total: int) -> int:
        outcome = _as_if(gate, total, n)
        return _RANKS.index(outcome) if rising else -_RANKS.index(outcome)

    lowest = rank(0)
    turns: list[tuple[VerdictBoundary | None, Outcome]] = [(None, _RANKS[abs(lowest)])]
    for target in range(lowest + 1, rank(n) + 1):
        at = bisect_left(range(n + 1), target, key=rank)
        turns.append((VerdictBoundary(float(at)), _RANKS[abs(rank(at))]))
    return turns


def _as_if(gate: Gate, total: int, n: int) -> Outcome:
    """The outcome of the gate with this number of documents of value 1."""
    estimate: GateEstimate = estimate_proportion(total, n, (), None)
    if gate.over != "population":
        estimate = estimate_over_reruns(gate, estimate)
    return compared(conditions_of(gate, estimate), estimate, gate.confidence).outcome


def _combined(bounds: Sequence[_Turns]) -> dict[str, Any]:
    """The cuts of several conditions, all of which must hold."""
    cuts = sorted({cut for turns in bounds for cut, _ in turns if cut is not None})

    def above(turns: _Turns, cut: VerdictBoundary | None) -> Outcome:
        return [o for at, o in turns if at is None or (cut and at <= cut)][-1]

    outcomes = [
        min((above(turns, cut) for turns in bounds), key=_RANKS.index)
        for cut in (None, *cuts)
    ]
    kept = [i for i, (a, b) in enumerate(pairwise(outcomes)) if a is not b]
    return {
        "cuts": tuple(cuts[i] for i in kept),
        "outcomes": (outcomes[0], *(outcomes[i + 1] for i in kept)),
    }


def _paired_steps(gate: Gate, n: int, old: Mapping[int, float]) -> Steps | str:
    if len(old) != n or not all(value in (0, 1) for value in old.values()):
        return f"the baseline {gate.baseline} has no right and wrong for each document"
    before = Fraction(int(sum(old.values())), n)
    change = ChangeEstimate(value=Fraction(0), before=before, now=before)
    (one,) = conditions_of(gate, change)
    bound = Bound(one.op, Decimal(0))
    turns = _point(bound, n * (before + Fraction(one.threshold)))
    return Steps(**_combined([turns]), share=_0_or_1, unit=1 / n)


def _ratio_steps(gate: Gate, metric: Metric, ratio: Ratio, n: int) -> Steps | str:
    """A document that adds to one of the counts changes ``above - T below`` by that
    count's step; all others change it by 0."""
    if len(gate.bounds) != 1 or not 0 < gate.bounds[0].value < 1:
        return f"{metric.name} needs one threshold between 0 and 1"
    bar = Fraction(gate.bounds[0].value)
    moves = [a - bar * b for a, b in zip(ratio.above, ratio.below, strict=True)]
    least = min(Fraction(0), *moves)
    span = max(Fraction(0), *moves) - least
    totals = metric.totals
    assert totals is not None

    def share(value: Any) -> float:
        counts = [math.fsum(column) for column in totals([value]).columns]
        if not {*counts} <= {0, 1} or math.fsum(counts) > 1:
            raise ValueError(f"a document adds {counts} to the counts of {metric.name}")
        moved = sum((m for m, c in zip(moves, counts, strict=True) if c), Fraction(0))
        return float((moved - least) / span)

    turns = _point(gate.bounds[0], -n * least / span)
    return Steps(**_combined([turns]), share=share, may_lack=False)


def _from_0_to_1(value: Any) -> float:
    if not 0 <= (number := float(value)) <= 1:
        raise ValueError(f"a document scored {value!r}, which is not from 0 to 1")
    return number


def _0_or_1(value: Any) -> float:
    if (number := float(value)) not in (0, 1):
        raise ValueError(f"a document scored {value!r}, which is neither 0 nor 1")
    return number


PAYS = 0.85
"""Expected share of documents above which early stopping is not worth its waves."""
ORDERS = 100  # number of simulated random orders
_SEED = 20240229


def expected_share(
    gates: Sequence[tuple[Steps, Sequence[float] | None]],
    wave: int,
    error: float,
    n_run: int | None = None,
) -> float | None:
    """The expected share of documents until all gates are decided, if the model behaves
    as in another run: the mean over random orders; ``None`` without such a run."""
    rng = np.random.default_rng(_SEED)
    shares = []
    for steps, old in gates:
        if old is None:
            return None
        values, whole = np.array(old, dtype=float), len(old)
        share = [
            min(1.0, _share(values, steps, wave, error, rng) * whole / (n_run or whole))
            for _ in range(ORDERS)
        ]
        shares.append(float(np.mean(share)))
    return max(shares, default=None)


def _share(
    values: np.ndarray[tuple[int], np.dtype[np.float64]],
    steps: Steps,
    wave: int,
    error: float,
    rng: np.random.Generator,
) -> float:
    """The share in one random order, with simulated flips."""
    n = len(values)
    old = rng.permutation(values)
    new = np.where(rng.random(n) < USUAL_FLIPS, rng.permutation(old), old)
    urns = steps.urns(n, error, old)
    for start in range(0, n, wave):
        part = new[start : start + wave]
        answers = [urn.read(part) for urn in urns]
        if all(answer is not None for answer in answers):
            return min(n, start + wave) / n
    return 1.0
