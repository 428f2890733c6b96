"""What a gate can do, before anything is asked: how small a drop it sees, and how often
it fails by chance.
"""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import NormalDist

from pytest_evals.core.forecast import GateForecast
from pytest_evals.core.gate import Gate
from pytest_evals.gates.stopping.saving import USUAL_FLIPS
from pytest_evals.gates.stopping.steps import SHARES
from pytest_evals.gates.wording.figures import figure
from pytest_evals.stats.intervals import wilson
from pytest_evals.stats.power import (
    chance_below,
    detectable,
    documents_for,
    paired_stderr,
)

__all__ = ["forecast", "weakness"]

WEAK = 0.5
"""Chance to be red at three times the margin, below which a gate is decoration."""
NEAR = 2.0
"""Standard errors between bar and number within which a floor will flake."""


def forecast(
    gate: Gate, n: int, last: float | None, flips: float = USUAL_FLIPS
) -> GateForecast:
    """What a gate on a share of right answers can see.

    Args:
        gate: The claim.
        n: Documents that it is about, at least 1.
        last: The number of an earlier run, ``None`` if there was none.
        flips: Share of answers that turn between two runs, where the gate does not say.
    """
    bare = GateForecast(gate=gate, n=n, last=last)
    if gate.metric not in SHARES or gate.cluster:
        return bare
    rate = flips if gate.flip_rate is None else gate.flip_rate
    if gate.margin is not None:
        return _of_margin(bare, rate)
    if gate.over == "population" and (never := _never(gate, n)):
        return replace(bare, warning=never)
    if len(gate.bounds) != 1 or (last is not None and not 0 <= last <= 1):
        return bare
    if last is None:
        paired = gate.over != "population"
        stderr = math.sqrt(rate / 2 / n)
        found = detectable(stderr, gate.confidence) if paired else None
        return replace(bare, detects=found)
    return _of_bound(bare, last, rate)


def weakness(gate: Gate, n: int) -> str:
    """Why a gate decides little over ``n`` documents, whatever the model says; empty if
    it is fit for its purpose, as far as that is known without a run."""
    if gate.over != "population" and gate.margin is None:
        return ""
    return forecast(gate, n, None).warning


def _never(gate: Gate, n: int) -> str:
    """Why a gate over other documents can never pass, or never fail."""
    lowest = wilson(1.0, n, gate.confidence).low
    highest = wilson(0.0, n, gate.confidence).high
    z = NormalDist().inv_cdf(gate.confidence)
    for bound in gate.bounds:
        bar = float(bound.value)
        rises = bound.op in (">=", ">")
        # With all answers right, or with none, Wilson's bound of n documents is
        # n / (n + z**2), or the rest of it.
        for reached, odds, what in (
            (lowest >= bar, bar / (1 - bar) if bar < 1 else math.inf, "right"),
            (highest <= bar, (1 - bar) / bar if bar > 0 else math.inf, "wrong"),
        ):
            if not reached:
                does = "pass" if (what == "right") == rises else "fail"
                return _too_few(f"{n:,} {what} answers", does, odds * z * z)
    return ""


def _too_few(answers: str, does: str, needed: float) -> str:
    text = f"not even {answers} would make it {does}"
    if math.isinf(needed):
        return f"{text}, nor any number of them: other documents never leave that sure"
    return f"{text}; that takes {math.ceil(needed):,} documents"


def _of_margin(bare: GateForecast, flips: float) -> GateForecast:
    """A drop since a baseline: paired, on the same documents."""
    gate, n = bare.gate, bare.n
    assert gate.margin is not None
    margin = gate.margin.allowed(1.0 if bare.last is None else bare.last)
    stderr = paired_stderr(flips, n)
    beyond = 0.0 if gate.over == "run" else NormalDist().inv_cdf(gate.confidence)
    if margin <= 0 or stderr <= 0:
        return bare
    thrice = chance_below(0.0, beyond - 2 * margin / _at(flips, n, 3 * margin), 1.0)
    needed = documents_for(margin, flips, gate.confidence)
    weak = (
        f"a drop of three times the margin would be red in {100 * thrice:.0f} of 100 "
        f"runs only; {needed:,} documents see the margin itself"
    )
    return replace(
        bare,
        detects=detectable(stderr, gate.confidence),
        false_red=chance_below(-margin / stderr - beyond, 0.0, 1.0),
        n_needed=needed,
        warning=weak if thrice < WEAK else "",
    )


def _at(flips: float, n: int, drop: float) -> float:
    return paired_stderr(flips, n, min(drop, 1.0)) or 1 / n


def _of_bound(bare: GateForecast, last: float, flips: float) -> GateForecast:
    """A bar on the number: what another run would say, or other documents."""
    gate, n = bare.gate, bare.n
    (bound,) = gate.bounds
    side = 1 if bound.op in (">=", ">") else -1
    variance = last * (1 - last) if gate.over == "population" else flips / 2
    stderr = math.sqrt(variance / n)
    beyond = 0.0 if gate.over == "run" else NormalDist().inv_cdf(gate.confidence)
    away = side * (last - float(bound.value))
    if stderr == 0:
        return replace(bare, false_red=float(away < 0))
    false_red = chance_below(-away / stderr - beyond, 0.0, 1.0)
    needed = None
    if away:
        z = NormalDist().inv_cdf(gate.confidence)
        needed = math.ceil(variance * (z / away) ** 2)
    return replace(
        bare,
        detects=detectable(stderr, gate.confidence),
        false_red=false_red,
        n_needed=needed,
        warning=_flakes(bare, away / stderr, false_red),
    )


def _flakes(bare: GateForecast, distance: float, false_red: float) -> str:
    if abs(distance) >= NEAR:
        return ""
    (bound,) = bare.gate.bounds
    near = f"the bar {bound.value} is near the last number, {figure(bare.last or 0.0)}"
    often = max(2, round(1 / max(false_red, 1e-3)))
    if false_red >= WEAK:
        return f"{near}: it fails in {100 * false_red:.0f} of 100 runs of such a model"
    if false_red < 1 / 200:
        return f"{near}: it will hardly ever be decided"
    return f"{near}: it fails about once in {often} runs of an unchanged model"
