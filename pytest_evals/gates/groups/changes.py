"""Baseline gates of groups: how far a weighted mean of tasks has moved.

Its variance is the sum of the tasks' own by the squares of the weights; alarms of
single tasks join in.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import product

from pytest_evals.core.gate import Gate, Outcome, Unit, Verdict
from pytest_evals.core.metric import MetricResult
from pytest_evals.core.reference import Find
from pytest_evals.gates.baseline.moving import Moved
from pytest_evals.gates.baseline.pairs import ends_of, lacking_text
from pytest_evals.gates.baseline.versus import (
    check_direction,
    check_varies,
    decide,
    moved_of,
    verdict_of,
)
from pytest_evals.gates.evidence.unsound import UnsoundError
from pytest_evals.gates.groups.alarms import alarm, alarms, with_alarms
from pytest_evals.gates.groups.members import Member
from pytest_evals.gates.groups.together import notes_of
from pytest_evals.gates.noise.placed import Placed
from pytest_evals.stats.combined import Part, combined
from pytest_evals.stats.paired import PairedShares
from pytest_evals.stats.spread import Located, Still

__all__ = ["judge_group_change"]


def judge_group_change(
    gate: Gate, metric: MetricResult, members: Sequence[Member], find: Find
) -> Verdict:
    """What becomes of a group's baseline gate.

    Raises:
        UnsoundError: There is nothing sound to judge.
    """
    check_direction(gate, metric)
    moves = [_moved(gate, member, find) for member in members]
    verdict = _held(gate, metric, members, [found for found, _ in moves])
    if metric.n_errored + metric.n_unscored:
        whole = [member._replace(weight=member.of_all) for member in members]
        if _could_be(gate, whole, [ends for _, ends in moves]) != {verdict.outcome}:
            raise UnsoundError(lacking_text(metric))
    return verdict


def _could_be(
    gate: Gate, members: Sequence[Member], ends: Sequence[Sequence[Moved]]
) -> set[Outcome]:
    """What the verdict may be, whatever the documents without a score are worth.

    Args:
        gate: The claim.
        members: Its tasks, with the weights of all documents.
        ends: How far each has moved, from all lost documents wrong to all right.
    """
    outcomes = set()
    for value, noise in product((0, -1), (min, max)):
        noises = [noise(one, key=_noise) for one in ends]
        parts = [
            _with_noise(one[value], n) for one, n in zip(ends, noises, strict=True)
        ]
        outcomes.add(decide(gate, _together(members, parts)).outcome)
    if gate.each is None:
        return outcomes
    names = [member.name for member in members]
    rings = set()
    for side in (min, max):
        worst = [side(one, key=partial(_p_value, gate)) for one in ends]
        rings.add(bool(alarms(gate, [*zip(names, worst, strict=True)])))
    kept = outcomes if False in rings else set()
    return kept | ({Outcome.FAILED} if True in rings else set())


def _noise(found: Moved) -> float:
    return combined([_part(found, 1.0)]).stderr


def _with_noise(found: Moved, noisy: Moved) -> Moved:
    """The change of one by the noise of the other."""
    part = _part(noisy, 1.0)
    spread = combined([part])
    if isinstance(spread, Located):
        spread = replace(spread, value=found.placed.spread.value)
    else:
        spread = Still(found.placed.spread.value)
    return replace(found, placed=replace(found.placed, spread=spread))


def _p_value(gate: Gate, found: Moved) -> float:
    return alarm(gate, found).p_fails or 0.0


def _held(
    gate: Gate, metric: MetricResult, members: Sequence[Member], found: Sequence[Moved]
) -> Verdict:
    """The verdict if the tasks have moved so, with the alarms of single tasks."""
    whole = _together(members, found)
    verdict = verdict_of(gate, metric, decide(gate, whole), whole)
    if gate.each is None:
        return verdict
    names = [member.name for member in members]
    return with_alarms(verdict, [*zip(names, found, strict=True)])


def _moved(gate: Gate, member: Member, find: Find) -> tuple[Moved, list[Moved]]:
    """How far a task has moved, and how far with all documents without a score wrong,
    and with all of them right."""
    try:
        reference = find(gate.baseline, member.name)
        pairs, found = moved_of(gate, member.metric, member.task, reference)
        if gate.over == "population" or gate.each is not None:
            check_varies(gate, found)
        ends = ends_of(gate, member.metric, member.task, pairs, found)
        if not ends:
            raise UnsoundError(lacking_text(member.metric))
    except UnsoundError as error:
        raise error.of(member.name) from error
    return found, ends


def _together(members: Sequence[Member], found: Sequence[Moved]) -> Moved:
    """The weighted mean of the tasks' changes."""
    weights = [member.weight for member in members]
    parts = [_part(one, float(w)) for w, one in zip(weights, found, strict=True)]
    before = _mean(weights, [one.before for one in found])
    now = _mean(weights, [one.now for one in found])
    spread = combined(parts)
    units: set[Unit] = {one.unit for one in found}
    unit = units.pop() if len(units) == 1 else "plain"
    shares = [one.shares for one in found if one.shares is not None]
    n = sum(one.n for one in found)
    counted = None
    if len(shares) == len(found):
        counted = PairedShares(
            sum(s.gained for s in shares), sum(s.lost for s in shares), n
        )
    return Moved(
        before=before,
        now=now,
        placed=Placed(
            spread=spread,
            method=f"paired, {len(found)} tasks combined",
            notes=notes_of(members, [one.placed for one in found]),
        ),
        n=n,
        shares=counted,
        unit="plain" if unit == "percent" else unit,
    )


def _part(found: Moved, weight: float) -> Part:
    """What a task adds; perplexities are averaged as they are, not as logarithms."""
    spread = found.placed.spread
    if found.placed.is_log:
        difference = float(found.now) - float(found.before)
        spread = Located(difference, float(found.now) * spread.stderr, found.n - 1)
    return Part(spread, weight, found.n)


def _mean(
    weights: Sequence[Fraction], values: Sequence[Fraction | float]
) -> Fraction | float:
    if all(isinstance(value, Fraction) for value in values):
        pairs = zip(weights, values, strict=True)
        return sum((w * Fraction(v) for w, v in pairs), Fraction(0))
    return math.fsum(float(w) * float(v) for w, v in zip(weights, values, strict=True))
