"""The power of gates before any request is sent: power, minimum detectable drop, false
positives and the required number of documents, by the rule that decides the gate.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from statistics import NormalDist

from pytest_evals.core.gate import Gate, Published
from pytest_evals.core.metric import Metric
from pytest_evals.core.run_plan import GatePlan
from pytest_evals.gates.early_stopping.steps import SHARES, USUAL_FLIPS
from pytest_evals.gates.formatting import figure, offer_of_assumption
from pytest_evals.gates.read.entry import COMPARED
from pytest_evals.gates.run_metrics import RUN_METRICS
from pytest_evals.gates.terms import has_limits
from pytest_evals.stats.independent import IndependentDifference
from pytest_evals.stats.interval_methods import ExactValue, Proportion
from pytest_evals.stats.intervals import ConfidenceInterval
from pytest_evals.stats.paired_proportions import PairedProportions
from pytest_evals.stats.power import (
    POWER,
    chance_below,
    documents_for,
    first_that,
    paired_stderr,
)

WEAK = 0.5
"""A warning is shown if the probability of failing at three times the margin is
smaller."""
NEAR = 2.0
"""A gate whose threshold is within this many standard errors of the number will be
flaky."""
MOST_DOCUMENTS = 10_000_000
_Z = NormalDist().inv_cdf(POWER)
_HALVINGS = 30
_TAIL = 1e-6
"""Tail probability of the numbers of flips that is not summed, on each side."""


def forecast(
    gate: Gate,
    n: int,
    last: float | None,
    flips: float = USUAL_FLIPS,
    limits: tuple[float, float] | None = None,
) -> GatePlan:
    """The power of a gate on a proportion; of a gate on another number, only how many
    documents it needs to pass.

    Args:
        n: Number of its documents, at least 1.
        last: The value in an earlier run, ``None`` if missing.
        flips: Flip rate between two runs, unless the gate sets one.
        limits: Range of the documents' values (:func:`range_of`).
    """
    bare = GatePlan(gate=gate, n=n, last=last)
    if why := _unplanned(gate, last):
        least = least_documents(gate, limits) if gate.over == "population" else None
        few = _few(gate, n, least) if least is not None and n < least else ""
        if (
            few
            and limits
            and gate.margin
            and (gate.metric not in SHARES or gate.reducer)
        ):
            margin = gate.margin.allowed(max(map(abs, limits)))
            few += offer_of_assumption(gate, margin, limits[1] - limits[0])
        return replace(bare, why=why, n_needed=least, warning=few)
    rate = flips if gate.flip_rate is None else gate.flip_rate
    if gate.margin is not None:
        published = gate.published
        return _of_published(bare, published) if published else _of_margin(bare, rate)
    if gate.over == "population" and (never := _never(gate, n)):
        return replace(bare, warning=never)
    if last is None:
        return _without_number(bare, rate)
    return _of_bound(bare, last, rate)


def _without_number(bare: GatePlan, flips: float) -> GatePlan:
    """A threshold on a metric without an earlier value."""
    if bare.gate.over == "population":
        return replace(bare, why="no earlier number of it")
    sd = math.sqrt(flips / 2 / bare.n)
    return replace(bare, detects=(_limit(bare.gate) + _Z) * sd)


def _unplanned(gate: Gate, last: float | None) -> str:
    """Why nothing can be computed for a gate before the run; empty if something can."""
    reasons = {
        "its value depends on both runs": gate.metric in COMPARED,
        "run metrics are unknown before the run": gate.metric in RUN_METRICS,
        "only proportions are planned": gate.metric not in SHARES,
        "the effect of clusters is unknown before the run": bool(gate.cluster),
        "the variation between repeats is unknown before the run": bool(gate.reducer),
        "the earlier number is not a proportion": not 0 <= (last or 0) <= 1,
        "it has two thresholds": len(gate.bounds) > 1,
        "it compares the number without its sampling error": (
            gate.published is not None and gate.over != "population"
        ),
    }
    return next((why for why, holds in reasons.items() if holds), "")


def weakness(gate: Gate, n: int, limits: tuple[float, float] | None = None) -> str:
    """Why a gate has little power with ``n`` documents, for any responses;
    empty if no reason is known before the run. ``limits``: as in :func:`forecast`."""
    if gate.over != "population" and gate.margin is None:
        return ""
    return forecast(gate, n, None, limits=limits).warning


def range_of(gate: Gate, metrics: Iterable[Metric]) -> tuple[float, float] | None:
    """The range of a document's value of a gate's metric; ``None`` if it is not a mean.
    An unknown range is at least 0 to 1.

    Args:
        metrics: Those of its tasks.
    """
    if gate.metric in COMPARED:
        return COMPARED[gate.metric]
    named = [one for one in metrics if one.name == gate.metric and one.is_mean]
    if not named:
        return None
    known = gate.range or named[0].known_limits
    is_known = known is not None and all(map(math.isfinite, known))
    return known if is_known else (0.0, 1.0)


def least_documents(gate: Gate, limits: tuple[float, float] | None) -> int | None:
    """The smallest number of documents with which a gate over a population can pass: if
    all have the best value, or none has changed. ``None`` if unknown, or if no number
    is enough."""
    if limits is None or gate.published is not None:
        return None
    (low, high), alpha = limits, 1 - gate.confidence
    width = high - low
    shares = [
        ((high - float(b.value)) if b.op in (">=", ">") else float(b.value) - low)
        / width
        for b in gate.bounds
    ]
    if gate.margin is not None:
        most = min(width, gate.largest_drop or width)
        shares.append(gate.margin.allowed(max(abs(low), abs(high))) / most)
    if not shares or not 0 < min(shares) < 1:
        return None
    return documents_for(alpha, min(shares))


def _few(gate: Gate, n: int, least: int) -> str:
    best = "with the best value in all documents, it passes"
    if gate.margin is not None:
        best = "a model that changes no answer passes"
    elif gate.metric in COMPARED:
        best = "with no difference in any document, it passes"
    return f"{best} only from {least:,} documents on, not with {n:,}"


def _limit(gate: Gate) -> float:
    """Distance of the compared limit from the number, in standard errors."""
    return NormalDist().inv_cdf(gate.confidence) if has_limits(gate) else 0.0


def _never(gate: Gate, n: int) -> str:
    """Why a gate can never pass, or never fail, with this number of documents."""
    alpha = 1 - gate.confidence
    lowest = Proportion(n, n).interval(gate.confidence).low
    highest = Proportion(0, n).interval(gate.confidence).high
    for bound in gate.bounds:
        edge = float(bound.value)
        rises = bound.op in (">=", ">")
        # The exact lower limit is alpha ** (1 / n) if all documents are correct, and
        # the upper limit is 1 minus that if none is.
        for reached, inner, what in (
            (lowest >= edge, edge, "correct"),
            (highest <= edge, 1 - edge, "wrong"),
        ):
            if not reached:
                does = "pass" if (what == "correct") == rises else "fail"
                needed = math.inf if inner >= 1 else documents_for(alpha, 1 - inner)
                return _too_few(f"{n:,} {what} answers", does, needed)
    return ""


def _too_few(answers: str, does: str, needed: float) -> str:
    text = f"not even {answers} would make it {does}"
    if math.isinf(needed):
        return f"{text}, nor any number of them: new samples are never that certain"
    return f"{text}; that needs {needed:,} documents"


def _of_margin(bare: GatePlan, flips: float) -> GatePlan:
    """A drop since a baseline, on the same documents."""
    gate, n = bare.gate, bare.n
    assert gate.margin is not None
    margin = gate.margin.allowed(1.0 if bare.last is None else bare.last)
    if margin <= 0 or flips <= 0:
        return bare

    rule = _paired_rule(gate, margin, flips)

    def fails(drop: float) -> float:
        """Probability that the gate fails for a true drop."""
        return rule(n, drop)[0]

    def passes(documents: int) -> bool:
        """Whether an unchanged model passes often enough."""
        return rule(documents, 0.0)[1] >= POWER

    thrice = fails(min(1.0, 3 * margin))
    needed = first_that(passes, 1, MOST_DOCUMENTS)
    weak = (
        f"{n:,} documents detect a drop of three times the margin in "
        f"{100 * thrice:.0f}% of runs"
    )
    if needed is not None:
        assumed = "" if gate.flip_rate is not None else " (assumed)"
        weak += f"; {needed:,} would prove an unchanged model within the margin, if "
        weak += f"{100 * flips:.2g}% of answers flip between runs{assumed}"
    return replace(
        bare,
        detects=_smallest(fails),
        false_positive_rate=fails(0.0),
        n_needed=needed,
        warning=weak if thrice < WEAK else "",
    )


Rule = Callable[[int, float], tuple[float, float]]
"""Documents and true drop → probabilities that the gate fails and that it passes."""


def _paired_rule(gate: Gate, margin: float, flips: float) -> Rule:
    if gate.over == "population":
        return _score_test_rule(margin, flips, 1 - gate.confidence)
    z = _limit(gate)

    def normal(n: int, drop: float) -> tuple[float, float]:
        sd = paired_stderr(flips, n, drop) or 1 / n
        reach = z * paired_stderr(flips, n)
        fails = chance_below(-margin - reach, -drop, sd)
        return fails, 1 - chance_below(-margin + reach, -drop, sd)

    return normal


def _score_test_rule(margin: float, flips: float, alpha: float) -> Rule:
    """Summed over the flips and the losses among them, which are binomial."""

    @cache
    def edges(n: int, changed: int) -> tuple[int, int]:
        """For a number of flips: the smallest number of losses that fails, and the
        largest that passes."""

        def shares(lost: int) -> PairedProportions:
            return PairedProportions(changed - lost, lost, n)

        every = range(changed + 1)
        fails = bisect_left(
            every, True, key=lambda k: shares(k).p_less(-margin) < alpha
        )
        ends = bisect_left(
            every, True, key=lambda k: shares(k).p_greater(-margin) > alpha
        )
        return fails, ends - 1

    def exact(n: int, drop: float) -> tuple[float, float]:
        from scipy.stats import binom

        rate = min(1.0, max(flips, drop))
        worse = (rate + drop) / (2 * rate)
        low, high = (int(binom.ppf(q, n, rate)) for q in (_TAIL, 1 - _TAIL))
        changed = range(low, high + 1)
        weights = binom.pmf(changed, n, rate)
        failing, passing = zip(*(edges(n, one) for one in changed), strict=True)
        before = [one - 1 for one in failing]
        fails = weights @ binom.sf(before, changed, worse)
        passes = weights @ binom.cdf(passing, changed, worse)
        return float(fails), float(passes)

    return exact


def _of_published(bare: GatePlan, published: Published) -> GatePlan:
    """A drop since a published number, by the limits of both (MOVER). Without an
    earlier value, the model is assumed to be as good as the published one."""
    gate, reference = bare.gate, float(published.value)
    assert gate.margin is not None
    if not 0 <= reference <= 1:
        return replace(bare, why="the reference is not a proportion")
    share = reference if bare.last is None else bare.last
    bar = -gate.margin.allowed(reference)
    n_old = published.n
    old = (
        ExactValue(reference) if n_old is None else Proportion(reference * n_old, n_old)
    )

    def limits(correct: int, n: int) -> ConfidenceInterval:
        difference = IndependentDifference(Proportion(correct, n), old)
        return difference.interval(gate.confidence)

    @cache
    def edges(n: int) -> tuple[int, int]:
        """The smallest numbers of correct answers that do not fail, and that pass."""
        every = range(n + 1)
        kept = bisect_left(every, True, key=lambda k: limits(k, n).high >= bar)
        passing = bisect_left(every, True, key=lambda k: limits(k, n).low >= bar)
        return kept, passing

    def fails(drop: float) -> float:
        from scipy.stats import binom

        return float(binom.cdf(edges(bare.n)[0] - 1, bare.n, max(0.0, share - drop)))

    def passes(n: int) -> bool:
        from scipy.stats import binom

        return float(binom.sf(edges(n)[1] - 1, n, share)) >= POWER

    return replace(
        bare,
        detects=_smallest(lambda drop: fails(drop) if drop < share else 1.0),
        false_positive_rate=fails(0.0),
        n_needed=first_that(passes, 1, MOST_DOCUMENTS),
    )


def _smallest(fails: Callable[[float], float]) -> float | None:
    """The smallest true drop that is detected with the usual power, or ``None``."""
    if fails(1.0) < POWER:
        return None
    if fails(0.0) >= POWER:
        return 0.0
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if fails(middle) >= POWER else (middle, high)
    return high


def _of_bound(bare: GatePlan, last: float, flips: float) -> GatePlan:
    """A threshold: over other documents, or over another run on the same ones."""
    gate, n = bare.gate, bare.n
    (bound,) = gate.bounds
    rises = bound.op in (">=", ">")
    # Upper thresholds are lower thresholds of the complementary proportion.
    edge = float(bound.value) if rises else 1 - float(bound.value)
    share = last if rises else 1 - last
    population = gate.over == "population"
    variance = share * (1 - share) if population else flips / 2
    away = share - edge

    def fails(drop: float) -> float:
        if population:
            return _binomial_fails(n, edge, share - drop, gate.confidence)
        sd = math.sqrt(variance / n)
        return chance_below(edge - _limit(gate) * sd, share - drop, sd)

    def decides(documents: int) -> bool:
        if population:
            side = _binomial_passes if away > 0 else _binomial_fails
            return side(documents, edge, share, gate.confidence) >= POWER
        sd = math.sqrt(variance / documents)
        return abs(away) >= (_limit(gate) + _Z) * sd

    if variance == 0 and not population:
        return replace(bare, false_positive_rate=float(away < 0))
    false_positive_rate = fails(0.0)
    stderr = math.sqrt(variance / n)
    return replace(
        bare,
        detects=_smallest(lambda drop: fails(drop) if drop < share else 1.0),
        false_positive_rate=false_positive_rate,
        n_needed=first_that(decides, 1, MOST_DOCUMENTS) if away else None,
        warning=_flakes(
            bare, away / stderr if stderr else math.inf, false_positive_rate
        ),
    )


def _binomial_fails(n: int, edge: float, share: float, confidence: float) -> float:
    """Probability that the upper exact limit is below the threshold."""
    from scipy.stats import binom

    alpha = 1 - confidence
    most = int(binom.ppf(alpha, n, edge))
    while most >= 0 and binom.cdf(most, n, edge) > alpha:
        most -= 1
    return float(binom.cdf(most, n, share)) if most >= 0 else 0.0


def _binomial_passes(n: int, edge: float, share: float, confidence: float) -> float:
    """Probability that the lower exact limit is at the threshold or above."""
    return _binomial_fails(n, 1 - edge, 1 - share, confidence)


def _flakes(bare: GatePlan, distance: float, false_positive_rate: float) -> str:
    if abs(distance) >= NEAR:
        return ""
    (bound,) = bare.gate.bounds
    near = f"the threshold {bound.value} is near the last number, "
    near += figure(bare.last or 0.0)
    percent = f"{100 * false_positive_rate:.0f}%"
    if false_positive_rate >= WEAK:
        return f"{near}: it fails in {percent} of runs of such a model"
    if false_positive_rate < 1 / 200:
        return f"{near}: it will rarely be decided"
    return f"{near}: an unchanged model fails it in {percent} of runs"
