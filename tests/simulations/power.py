"""What a plan says that a gate detects, and how often it does.

``planned`` is the only place that knows the planning code.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pytest_evals.errors import Place
from pytest_evals.gates.planning.forecast import forecast
from pytest_evals.gates.rules.grammar import read_gate
from pytest_evals.stats.spread import Proportion
from tests.simulations.answers import ALPHA, tango_rates

__all__ = ["Plan", "detection_rate", "planned", "power_rows"]


class Plan(NamedTuple):
    """What a plan says of a gate.

    Args:
        detects: The drop from the last value that makes the gate fail with a power of
            80%; ``None`` if unknown.
        needs: Documents that decide it if the value stays.
    """

    detects: float | None
    needs: int | None


def planned(gate: dict[str, object], n: int, last: float, flips: float = 0.05) -> Plan:
    """The plan of a gate on ``acc`` over a population."""
    read = read_gate({"metric": "acc", **gate}, task="task", source=Place(Path("x"), 1))
    found = forecast(read, n, last, flips)
    return Plan(found.detects, found.n_needed)


def detection_rate(threshold: float, n: int, value: float) -> float:
    """How often ``min: threshold`` over a population fails at this true value, in
    percent: summed over all outcomes."""
    from scipy.stats import binom

    fails = [k for k in range(n + 1) if Proportion(k, n).p_less(threshold) <= ALPHA]
    return 100 * float(binom.cdf(max(fails, default=-1), n, min(1.0, max(0.0, value))))


def decides(threshold: float, n: int, value: float) -> bool:
    """Whether n documents with this value decide the gate."""
    found = Proportion(round(value * n), n)
    return min(found.p_less(threshold), found.p_greater(threshold)) <= ALPHA


def power_rows() -> Iterator[str]:
    """Tables of power, stated and measured."""
    yield "`min`, over: population: power at last - detects (stated: 80%)"
    yield f"{'threshold':>9} {'last':>6} {'n':>5} {'detects':>8} {'power %':>8} {'needs':>7}  decides there, one tenth fewer"
    for threshold, last in ((0.7, 0.72), (0.7, 0.75), (0.9, 0.95), (0.5, 0.6)):
        for n in (100, 300, 1000):
            plan = planned({"min": threshold, "over": "population"}, n, last)
            power = math.nan
            if plan.detects is not None:
                power = detection_rate(threshold, n, last - plan.detects)
            settled = "-"
            if plan.needs:
                fewer = math.floor(0.9 * plan.needs)
                settled = f"{decides(threshold, plan.needs, last)}, {decides(threshold, max(1, fewer), last)}"
            detects = math.nan if plan.detects is None else plan.detects
            yield f"{threshold:9g} {last:6g} {n:>5} {detects:8.3f} {power:8.1f} {plan.needs or 0:>7}  {settled}"
    yield "`max_drop`, over: population: power at a drop of detects (stated: 80%)"
    for n, flips, margin in ((300, 0.05, 0.02), (1000, 0.05, 0.02), (1000, 0.1, 0.01)):
        gate = {"baseline": "main", "max_drop": margin, "over": "population"}
        plan = planned(gate, n, 0.75, flips)
        drop = plan.detects or 0.0
        rates = tango_rates(n, max(flips, drop), margin, -drop)
        yield f"{margin:9g} {flips:6g} {n:>5} {drop:8.3f} {rates.failed:8.1f} {plan.needs or 0:>7}"
