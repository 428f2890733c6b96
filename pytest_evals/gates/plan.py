"""The power of gates before any request is sent: minimum detectable drop, false
positives and the required number of documents."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from statistics import NormalDist
from typing import NamedTuple

from pytest_evals.core.gate import Gate
from pytest_evals.core.metric import Metric
from pytest_evals.core.run_plan import GatePlan
from pytest_evals.errors import plural
from pytest_evals.gates.estimate.sums import UNKNOWN_RANGE, UNSEEN
from pytest_evals.gates.new_samples import offer_of_assumption
from pytest_evals.gates.power import (
    POWER,
    USUAL_FLIPS,
    Rule,
    Stratum,
    documents_for,
    documents_needed,
    flips_text,
    paired_rule,
    rule_of,
    sample_rule,
)
from pytest_evals.gates.read.entry import COMPARED
from pytest_evals.gates.run_metrics import RUN_METRICS
from pytest_evals.gates.terms import figure, percent
from pytest_evals.stats.interval_methods import first_that, last_that

WEAK = 0.5
"""A warning is shown if the probability of failing at three times the margin is
smaller."""
NEAR = 2.0
"""A gate whose threshold is within this many standard errors of the number will be
flaky."""
_DISTANCE = NormalDist().inv_cdf(0.95) + NormalDist().inv_cdf(POWER)
"""Standard errors between a margin and a change that is decided with the usual power.
"""
_SMALL_DROPS = (0.0, 0.01, 0.02)
_DROPS = (0.01, 0.03, 0.05)
"""True drops whose chance to pass is shown: for a sampled run, and for others."""


class Known(NamedTuple):
    """What is known of the documents of a gate before the run."""

    limits: tuple[float, float] | None = None
    """Range of the documents' values (:func:`range_of`)."""
    is_share: bool = True  # whether each document's value is 0 or 1
    strata: Sequence[Stratum] = ()  # the tasks of a group
    names: Sequence[str] = ()  # their names
    n_whole: int = 0  # documents of the complete baseline, if only a sample is run


NOTHING = Known()


def forecast(
    gate: Gate,
    n: int,
    last: float | None,
    flips: float = USUAL_FLIPS,
    known: Known = NOTHING,
    *,
    only_warns: bool = False,
) -> GatePlan:
    """The power of a gate on a proportion; of a gate on another number, only how many
    documents it needs to pass.

    Args:
        last: The value in an earlier run, ``None`` if missing: that of the gate counts.
        flips: Flip rate between two runs, unless the gate sets one.
        only_warns: Whether only the warning is needed, which is much faster.
    """
    if last is None and gate.expected is not None:
        last = float(gate.expected)
    bare = GatePlan(gate=gate, n=n, last=last)
    margin = gate.margin
    if margin and margin.relative and last is None and gate.published is None:
        return replace(bare, why="the value in the baseline is unknown")
    if why := _unplanned(gate, last, is_share=known.is_share):
        least, few = _least(gate, n, last, known)
        return replace(bare, why=why, n_needed=least, warning=few)
    rate = flips if gate.flip_rate is None else gate.flip_rate
    share = last
    if last is None and gate.published is not None:
        share = float(gate.published.value)
    if gate.over == "run" and known.n_whole > n and share is not None and rate:
        return _of_sample(bare, share, known.n_whole, rate)
    if gate.margin is None and gate.over == "population":
        if never := _never(gate, n):
            return replace(bare, warning=never)
        if last is None:
            return replace(bare, why="no earlier number of it")
    rule = rule_of(gate, share, rate, known.strata)
    if rule is not None:
        bare = _planned(bare, share, rate, rule, only_warns=only_warns)
    return bare


def _planned(
    bare: GatePlan, share: float | None, flips: float, rule: Rule, *, only_warns: bool
) -> GatePlan:
    gate, n, is_floor = bare.gate, bare.n, bare.gate.margin is None
    bare = replace(bare, warning=_undetected(bare, share, flips, rule))
    if only_warns and not is_floor:
        return bare
    away, most, noise = 1.0, math.inf, flips
    if is_floor:
        sign = 1 if gate.bounds[0].is_lower else -1
        away = 0.0 if share is None else min(_distances(gate, share))
        most = math.inf if share is None else share if sign > 0 else 1 - share
        noise = flips / 2
        if gate.over == "population" and share is not None:
            noise = share * (1 - share)
        if not noise and gate.over != "population":
            return replace(bare, false_positive_rate=float(away < 0))
    if gate.published is not None:
        most = share or 0.0
    detects = _smallest(lambda drop: rule(n, drop)[0] if drop < most else 1.0)
    if is_floor and share is None:
        return replace(bare, detects=detects)
    cheaper, n_cheaper = _cheaper(gate, n, detects if is_floor else None, flips)
    plan = replace(
        bare,
        detects=detects,
        about=_audit(n, _DROPS, rule),
        cheaper=cheaper,
        n_cheaper=n_cheaper,
        false_positive_rate=rule(n, 0.0)[0],
        n_needed=documents_needed(rule, passes=away > 0) if away else None,
    )
    if is_floor:
        stderr = math.sqrt(noise / n)
        return replace(plan, warning=_flakes(plan, away / stderr if stderr else 9.0))
    return plan


def _distances(gate: Gate, share: float) -> list[float]:
    """How far a share is on the right side of each threshold."""
    signs = (1 if bound.is_lower else -1 for bound in gate.bounds)
    pairs = zip(signs, gate.bounds, strict=True)
    return [sign * (share - float(bound.value)) for sign, bound in pairs]


def _audit(n: int, drops: Sequence[float], rule: Rule, whole: str = "") -> str:
    """How often models that are truly worse pass."""
    chances = [f"{100 * rule(n, drop)[1]:.0f}%" for drop in drops]
    points = " / ".join(f"{100 * drop:g}" for drop in drops)
    return (
        f"{n:,}{whole} documents: a model that is worse by {points} points passes in "
        f"{' / '.join(chances)} of runs"
    )


def _cheaper(gate: Gate, n: int, drop: float | None, flips: float) -> tuple[str, int]:
    """A paired gate that detects a drop with fewer documents, and usually passes an
    unchanged model, and their number; empty without one."""
    if not drop or not flips or drop >= 1:
        return "", 0
    margin, least = _smallest_pair(round(drop, 3), flips, gate.confidence, n)
    if not least:
        return "", 0
    metric = f"{gate.metric},{gate.filter}" if gate.filter else gate.metric
    entry = {"task": gate.task, "metric": metric, "baseline": "main"}
    shown = ", ".join(f"{key}: {json.dumps(value)}" for key, value in entry.items())
    return f"{{{shown}, max_drop: {margin:g}}}", least


@lru_cache
def _smallest_pair(
    drop: float, flips: float, confidence: float, most: int
) -> tuple[float, int]:
    """The margin and the number of documents, below ``most``, with which a paired gate
    detects a drop and passes an unchanged model, each with the usual power; 0 documents
    without one."""
    # Both distances, of the margin from 0 and from the drop, in standard errors.
    spreads = math.sqrt(flips), math.sqrt(max(flips, drop))
    margin = round(drop * spreads[0] / sum(spreads), 3)
    if not 0 < margin < drop:
        return margin, 0
    rule = paired_rule(margin, flips, 1 - confidence)

    def is_enough(n: int) -> bool:
        return rule(n, drop)[0] >= POWER and rule(n, 0.0)[1] >= POWER

    guess = math.ceil((_DISTANCE * sum(spreads) / drop) ** 2)
    return margin, first_that(is_enough, 1, most - 1, guess) or 0


def _undetected(plan: GatePlan, share: float | None, flips: float, rule: Rule) -> str:
    """A warning if a drop of three times the margin is mostly not detected."""
    gate, n = plan.gate, plan.n
    if gate.margin is None or gate.published is not None:
        return ""
    margin = gate.margin.allowed(1.0 if share is None else share)
    drop = min(1.0, 3 * margin)
    thrice = rule(n, drop)[0]
    if thrice >= WEAK:
        return ""
    weak = (
        f"low power: {plural(n, 'document')} can detect a drop of {100 * drop:.3g} "
        f"points in {percent(thrice)} of runs"
    )
    if (needed := documents_needed(rule)) is not None:
        assumed = "" if gate.flip_rate is not None else " (assumed)"
        weak += f"; {needed:,} would in {percent(rule(needed, drop)[0])}, and pass an "
        weak += f"unchanged model in {percent(POWER)}, {flips_text(flips, assumed)}"
    return weak


def _unplanned(gate: Gate, last: float | None, *, is_share: bool) -> str:
    """Why nothing can be computed for a gate before the run; empty if something can."""
    published, number = gate.published, gate.published and gate.published.value
    reasons = {
        "its value depends on both runs": gate.metric in COMPARED,
        "run metrics are unknown before the run": gate.metric in RUN_METRICS,
        "only proportions are planned": not is_share,
        "the effect of clusters is unknown before the run": gate.cluster,
        "the variation between repeats is unknown before the run": gate.reducer,
        "the earlier number is not a proportion": not 0 <= (last or 0) <= 1,
        "it has two thresholds": len(gate.bounds) > 1
        and (gate.over != "run" or last is None),
        "it compares the number without its sampling error": (
            published and gate.over != "population"
        ),
        "the reference is not a proportion": not 0 <= (number or 0) <= 1,
    }
    return next((why for why, holds in reasons.items() if holds), "")


def weakness(
    gate: Gate, n: int, known: Known = NOTHING, last: float | None = None
) -> str:
    """Why a gate has little power with ``n`` documents, for any responses; empty if no
    reason is known before the run. ``last``: the value in its baseline, if known."""
    if gate.over != "population" and gate.margin is None:
        return ""
    return forecast(gate, n, last, known=known, only_warns=True).warning


def range_of(gate: Gate, metrics: Iterable[Metric]) -> tuple[float, float] | None:
    """The range of a document's value of a gate's metric; ``None`` if it is not a mean.
    An unknown range is at least 0 to 1; baseline gates assume at least 0 to
    :data:`UNSEEN`. ``metrics``: those of its tasks."""
    if gate.metric in COMPARED:
        return COMPARED[gate.metric]
    named = [one for one in metrics if one.name == gate.metric and one.is_mean]
    if not named:
        return None
    known = gate.range or named[0].known_limits
    is_known = known is not None and all(map(math.isfinite, known))
    return known if is_known else (0.0, UNSEEN if gate.margin is not None else 1.0)


def _least(
    gate: Gate, n: int, last: float | None, known: Known
) -> tuple[int | None, str]:
    """The smallest number of documents with which a gate over a population can pass: if
    all have the best value, or none has changed; and a warning if these are fewer."""
    if gate.over != "population" or not known.limits or gate.published is not None:
        return None, ""
    low, high = known.limits
    width = most = high - low
    shares = [
        ((high - float(b.value)) if b.is_lower else float(b.value) - low) / width
        for b in gate.bounds
    ]
    allowed = 0.0
    if gate.margin is not None:
        allowed = gate.margin.allowed(last or 0.0)
        most = min(width, gate.largest_drop or width)
        shares.append(allowed / most)
    if not shares or not 0 < min(shares) < 1:
        return None, ""
    least = documents_for(1 - gate.confidence, min(shares))
    if n >= least:
        return least, ""
    best = "with the best value in all documents, it passes"
    if gate.margin is not None:
        best = "a model that changes no answer passes"
    elif gate.metric in COMPARED:
        best = "with no difference in any document, it passes"
    few = f"{best} only from {least:,} documents on, not with {n:,}"
    if known.limits == (0.0, UNSEEN):
        few += f"; {UNKNOWN_RANGE}: range: [lowest, highest] in the gate needs fewer"
    elif gate.margin is not None and (not known.is_share or gate.reducer):
        few += offer_of_assumption(gate, allowed, width)
    return least, few


def _never(gate: Gate, n: int) -> str:
    """Why a gate can never pass, or never fail, with this number of documents."""
    for bound in gate.bounds:
        edge = float(bound.value)
        for inner, message in ((edge, "correct"), (1 - edge, "wrong")):
            does = "pass" if (message == "correct") == bound.is_lower else "fail"
            text = f"not even {plural(n, f'{message} answer')} would make it {does}"
            if inner >= 1:
                never = "nor any number of them: new samples are never that certain"
                return f"{text}, {never}"
            if n < (least := documents_for(1 - gate.confidence, 1 - inner)):
                return f"{text}; that needs {plural(least, 'document')}"
    return ""


def _flakes(plan: GatePlan, distance: float) -> str:
    """A warning if the threshold is within the noise of the last number."""
    if abs(distance) >= NEAR:
        return ""
    distances = _distances(plan.gate, plan.last or 0.0)
    bound = plan.gate.bounds[distances.index(min(distances))]
    false_positive_rate = plan.false_positive_rate or 0.0
    last = figure(plan.last or 0.0)
    near = f"the threshold {bound.value} is near the last number, {last}"
    if false_positive_rate >= WEAK:
        fails = f"it fails in {percent(false_positive_rate)} of runs"
        return f"{near}: {fails} of such a model"
    if false_positive_rate < 1 / 200:
        return f"{near}: it will rarely be decided"
    return (
        f"{near}: an unchanged model fails it in {percent(false_positive_rate)} of runs"
    )


def _smallest(fails: Callable[[float], float]) -> float | None:
    """The smallest true drop that is detected with the usual power, or ``None``."""
    if fails(1.0) < POWER:
        return None
    return last_that(lambda drop: fails(drop) >= POWER, 1.0, 0.0)


def _of_sample(bare: GatePlan, last: float, n_whole: int, flips: float) -> GatePlan:
    """A sampled run, which is judged with the knowledge of a complete baseline."""
    gate = bare.gate
    if gate.margin is not None:
        bar = -gate.margin.allowed(last)
    else:
        (bound,) = gate.bounds
        bar = float(bound.value) - last
        if not bound.is_lower:
            bar, last = -bar, 1 - last
    rule = sample_rule(bar, n_whole, flips, 1 - gate.confidence)

    def decides(n: int) -> bool:
        return rule(n, 0.0)[0 if bar > 0 else 1] >= POWER

    return replace(
        bare,
        detects=_smallest(lambda drop: rule(bare.n, drop)[0] if drop < last else 1.0),
        false_positive_rate=rule(bare.n, 0.0)[0],
        n_needed=first_that(decides, 1, n_whole, bare.n),
        about=_audit(bare.n, _SMALL_DROPS, rule, f" of {n_whole:,}"),
    )
