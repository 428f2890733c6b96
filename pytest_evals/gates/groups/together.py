"""Gates of groups that need what their tasks are made of: those that count noise, or
that weigh the tasks by themselves.

The number is a weighted mean of the tasks' numbers, its variance the sum of theirs by
the squares of the weights: tasks are independent samples.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from pytest_evals.core.gate import Gate, Verdict
from pytest_evals.core.metric import Estimate, MetricResult
from pytest_evals.gates.bounds.scopes import judge_placed
from pytest_evals.gates.evidence.documents import labels_of, values_of
from pytest_evals.gates.evidence.reading import Reading, read
from pytest_evals.gates.evidence.unsound import UnsoundError
from pytest_evals.gates.groups.members import Member
from pytest_evals.gates.noise.extremes import ends_of_share
from pytest_evals.gates.noise.placed import Placed, antilog
from pytest_evals.gates.noise.placing import place_noise
from pytest_evals.gates.noise.repeats import place_repeats
from pytest_evals.stats.combined import Part, combined
from pytest_evals.stats.spread import Located, Still

__all__ = ["judge_group_noise", "notes_of", "place_members", "weighed"]


def weighed(
    gate: Gate, metric: MetricResult, members: Sequence[Member]
) -> tuple[MetricResult, Reading]:
    """The group's number with the weights of the gate."""
    parts = [(member.weight, read(member.metric)) for member in members]
    values = [reading.value for _, reading in parts]
    value: Fraction | float
    if all(isinstance(one, Fraction) for one in values):
        value = sum((w * Fraction(r.value) for w, r in parts), Fraction(0))
    else:
        value = math.fsum(float(w) * float(r.value) for w, r in parts)
    estimate = metric.estimate
    stderr = estimate.stderr if estimate and not gate.weights else None
    own = replace(metric, estimate=Estimate(float(value), stderr))
    return own, Reading(
        value=value,
        total=metric.total if not gate.weights else None,
        n_scored=metric.n_scored,
        n_errored=metric.n_errored,
        n_unscored=metric.n_unscored,
        given_ends=_ends(members),
    )


def place_members(gate: Gate, members: Sequence[Member]) -> list[Placed] | None:
    """Where the tasks' numbers lie, each on its own scale; ``None`` where the gate
    counts no noise, or nothing is known of it.

    Raises:
        UnsoundError: Nothing says how a task's number varies.
    """
    if gate.over == "population" or gate.flip_rate is not None:
        return [_placed(gate, member) for member in members]
    found = [place_repeats(gate, one.metric, one.task) for one in members]
    known = [placed for placed in found if placed is not None]
    return known if len(known) == len(members) else None


def judge_group_noise(
    gate: Gate,
    metric: MetricResult,
    reading: Reading,
    members: Sequence[Member],
    placed: Sequence[Placed],
) -> Verdict:
    """What becomes of a group's gate over other documents, or another run.

    Args:
        gate: The claim.
        metric: The group's number, with the weights of the gate.
        reading: The same as it is compared.
        members: Its tasks.
        placed: Where their numbers lie, by :func:`place_members`.

    Raises:
        UnsoundError: There is nothing sound to judge.
    """
    parts = [_part(one, member) for one, member in zip(placed, members, strict=True)]
    spread = combined(parts)
    if isinstance(spread, Still) and gate.over == "population":
        raise UnsoundError(f"{metric.key} is the same in all documents of each task")
    whole = Placed(
        spread=replace(spread, value=float(reading.value)),
        method=f"{len(members)} tasks combined",
        notes=notes_of(members, placed),
    )
    ends = _noisy_ends(gate, reading, members, placed, whole)
    return judge_placed(gate, metric, reading, whole, ends)


def _noisy_ends(
    gate: Gate,
    reading: Reading,
    members: Sequence[Member],
    placed: Sequence[Placed],
    whole: Placed,
) -> list[Placed]:
    """Where the number would lie with all documents without a score wrong, and with all
    of them right, each by as much noise as there could be and by as little."""
    most, least = [], []
    for member, one in zip(members, placed, strict=True):
        of_all = member._replace(weight=member.of_all)
        own, key = read(member.metric), member.metric.key
        ends = [one]
        if own.n_lacking:
            ends = ends_of_share(gate, own, one, member.task, key)
        parts = sorted((_part(end, of_all) for end in ends), key=_noise)
        if not parts:
            return []
        least.append(parts[0]._replace(n=own.n))
        most.append(parts[-1])
    spreads = [combined(parts) for parts in (most, least)]
    return [
        replace(whole, spread=replace(spread, value=float(end)))
        for spread in spreads
        for end in reading.ends
    ]


def _noise(part: Part) -> float:
    return combined([part]).stderr


def notes_of(members: Sequence[Member], placed: Sequence[Placed]) -> tuple[str, ...]:
    """What is to be said of each task's number, with its name in front."""
    return tuple(
        f"{member.name}: {note}"
        for member, one in zip(members, placed, strict=True)
        for note in one.notes
    )


def _ends(members: Sequence[Member]) -> tuple[Fraction, ...]:
    """The group's number with all documents without a score wrong, and right; nothing
    where they are neither."""
    readings = [read(member.metric) for member in members]
    if any(reading.total is None for reading in readings):
        return ()
    found = zip(*(reading.ends for reading in readings), strict=True)
    weights = [member.of_all for member in members]
    return tuple(
        sum((w * end for w, end in zip(weights, side, strict=True)), Fraction(0))
        for side in found
    )


def _placed(gate: Gate, member: Member) -> Placed:
    """Where a task's number lies, on its own scale."""
    reading = read(member.metric)
    try:
        values = values_of(member.task, member.metric.key)
        labels = labels_of(member.task, gate.cluster, [*values])
        return place_noise(gate, member.metric, reading, [*values.values()], labels)
    except UnsoundError as error:
        raise error.of(member.name) from error


def _part(placed: Placed, member: Member) -> Part:
    """What a task adds; perplexities are averaged as they are, not as logarithms."""
    spread, n = placed.spread, member.metric.n_scored
    if placed.is_log:
        value = antilog(spread.value)
        spread = Located(value, value * spread.stderr, n - 1)
    return Part(spread, float(member.weight), n)
