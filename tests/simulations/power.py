"""Power of gates: planned and measured.

``planned`` is the only function that uses the planning code.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from pytest_evals.errors import Place
from pytest_evals.gates.plan import forecast
from pytest_evals.gates.read.entry import read_gate
from pytest_evals.stats.interval_methods import Proportion
from tests.simulations.answers import ALPHA, tango_rates

__all__ = ["Plan", "decides", "detection_rate", "planned", "power_rows"]

FLIPS = (0.02, 0.05, 0.1)


class Plan(NamedTuple):
    """The plan of a gate.

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

    most = bisect_left(
        range(n + 1), True, key=lambda k: Proportion(k, n).p_less(threshold) > ALPHA
    )
    return 100 * float(binom.cdf(most - 1, n, min(1.0, max(0.0, value))))


def decides(threshold: float, n: int, value: float) -> bool:
    """Whether n documents with this value decide the gate."""
    found = Proportion(round(value * n), n)
    return min(found.p_less(threshold), found.p_greater(threshold)) <= ALPHA


def smallest_drop(power_of: Callable[[float], float], power: float = 80.0) -> float:
    """The smallest drop that is detected with this power, in points."""
    low, high = 0.0, 0.5
    while high - low > 1e-4:
        middle = (low + high) / 2
        low, high = (low, middle) if power_of(middle) >= power else (middle, high)
    return 100 * high


def drop_rows() -> Iterator[str]:
    """The table of drops that gates detect, measured from the threshold or margin."""
    yield "smallest drop below threshold or margin detected with 80% power (points)"
    yield f"{'n':>5} {'min: 0.75':>10} " + "".join(
        f"{f'{flips:.0%} flip':>10}" for flips in FLIPS
    )
    for n in (100, 200, 500, 1000):
        drops = [smallest_drop(lambda d, n=n: detection_rate(0.75, n, 0.75 - d))]
        drops += [
            smallest_drop(lambda d, n=n, f=f: tango_rates(n, max(f, d), 0, -d).failed)
            for f in FLIPS
        ]
        yield f"{n:>5} " + " ".join(f"{drop:>9.1f}" for drop in drops)


def power_rows() -> Iterator[str]:
    """Tables of power, stated and measured."""
    yield from drop_rows()
    yield "`min`, over: population: power at last - detects (stated: 80%)"
    yield (
        f"{'threshold':>9} {'last':>6} {'n':>5} {'detects':>8} {'power %':>8} "
        f"{'needs':>7}  decided with as many, with 10% fewer"
    )
    for threshold, last in ((0.7, 0.72), (0.7, 0.75), (0.9, 0.95), (0.5, 0.6)):
        for n in (100, 300, 1000):
            plan = planned({"min": threshold, "over": "population"}, n, last)
            drop = math.nan if plan.detects is None else plan.detects
            power = detection_rate(threshold, n, last - drop)
            settled = ""
            if plan.needs:
                counts = (plan.needs, max(1, math.floor(0.9 * plan.needs)))
                settled = ", ".join(
                    "yes" if decides(threshold, count, last) else "no"
                    for count in counts
                )
            yield (
                f"{threshold:9g} {last:6g} {n:>5} {drop:8.3f} {power:8.1f} "
                f"{plan.needs or 0:>7}  {settled}"
            )
    yield "`max_drop`, over: population: power at a drop of detects (stated: 80%)"
    yield (
        f"{'margin':>9} {'flips':>6} {'n':>5} {'detects':>8} {'power %':>8} "
        f"{'needs':>7}"
    )
    for n, flips, margin in ((300, 0.05, 0.02), (1000, 0.05, 0.02), (1000, 0.1, 0.01)):
        gate = {"baseline": "main", "max_drop": margin, "over": "population"}
        plan = planned(gate, n, 0.75, flips)
        drop = plan.detects or 0.0
        rates = tango_rates(n, max(flips, drop), margin, -drop)
        yield (
            f"{margin:9g} {flips:6g} {n:>5} {drop:8.3f} {rates.failed:8.1f} "
            f"{plan.needs or 0:>7}"
        )
